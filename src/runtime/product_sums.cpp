#include "runtime/product_sums.h"

#include <array>

#include "base/error.h"
#include "runtime/program.h"

namespace ingot::runtime {

void sum_products(const backend::Backend& backend, ir::DType dtype, int64_t m, int64_t n, int64_t k, std::span<const ProductSum> sums, void* stream) {
  const backend::RunKernel* kernel = backend.find("product_sum");
  if (kernel == nullptr || backend.memory() == nullptr) fail(Code::unsupported, "the weights are on the host, where no products are added to them");
  const std::array<int64_t, 3> sizes = {m, n, k};
  const int64_t of_up[] = {m, k}, of_down[] = {k, n}, of_sum[] = {m, n}, up_steps[] = {k, 1}, steps[] = {n, 1};
  std::array<backend::TensorRef, 4> operands = {
      {{nullptr, dtype, 2, of_up, up_steps}, {nullptr, dtype, 2, of_down, steps}, {nullptr, dtype, 2, of_sum, steps}, {nullptr, dtype, 2, of_sum, steps}}};
  const std::shared_ptr<const void> constants = kernel->load({}, operands.size(), sizes.size());
  const std::unique_ptr<backend::Stream> work = backend.new_stream();
  work->set_stream(stream);
  backend::Call call;
  call.operands = operands;
  call.sizes = sizes;
  call.constants = constants.get();
  call.backend = &backend;
  call.stream = work.get();
  const backend::Resolved resolved = kernel->resolve(call);
  call.prepared = resolved.state.get();
  const MemoryBlock scratch = reserve(resolved.scratch, *backend.memory(), "adding products to weights");
  call.scratch = scratch.data();
  for (const ProductSum& sum : sums) {
    operands[0].data = sum.up;
    operands[1].data = sum.down;
    operands[2].data = sum.base;
    operands[3].data = sum.to;
    kernel->run(call);
  }
  if (resolved.scratch > 0) work->wait();
}

}  // namespace ingot::runtime
