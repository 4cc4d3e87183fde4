#include "backend/cuda/kernels/external/run/external_launches.h"

#include "backend/cuda/run/hardware.h"
#include "backend/cuda/run/launch.h"
#include "backend/run/device.h"
#include "base/error.h"
#include "kernels/external/run/external_args.h"

namespace ingot::kernels {

namespace {

// The parameters of a launch, each aligned to its size.
class Parameters {
 public:
  explicit Parameters(CudaLaunch& launch) : l_(launch) {}

  void pointer(size_t operand) {
    const uint64_t none = 0;
    value(none);
    l_.pointers.push_back({CudaLaunch::Pointer::operand, l_.places.back(), operand});
  }
  template <class T>
  void value(T v) {
    const size_t at = (l_.parameters.size() + sizeof v - 1) / sizeof v * sizeof v;
    l_.parameters.resize(at + sizeof v);
    std::memcpy(l_.parameters.data() + at, &v, sizeof v);
    l_.places.push_back(at);
  }
  void integer(int64_t v, size_t bytes, const std::string& kernel) {
    if (bytes == 8) return value(v);
    if (v != static_cast<int32_t>(v)) fail(Code::invalid_input, "kernel {} takes numbers of 32 bits, and one is {}", kernel, v);
    value(static_cast<int32_t>(v));
  }

 private:
  CudaLaunch& l_;
};

constexpr const char* names_of_sizes[] = {"blocks along x", "blocks along y", "blocks along z", "bytes of shared memory"};
constexpr size_t sizes_of_launch = std::size(names_of_sizes);

void shape(CudaLaunch& l, const ExternalArgs& a, std::span<const int64_t> launch) {
  using namespace backend::cuda::hardware;
  constexpr int64_t limits[] = {INT32_MAX, max_blocks_across, max_blocks_across, hopper_shared_of_block};
  for (size_t k = 0; k < sizes_of_launch; ++k) {
    if (launch[k] < (k < 3 ? 1 : 0) || launch[k] > limits[k]) {
      throw Error(Code::invalid_input,
                  fmt::format("the grid of kernel {} asks for {} {} at these sizes, and 1 to {} are possible", a.name, launch[k], names_of_sizes[k], limits[k]))
          .fix("mend the function `grid` of ingot.register_kernel");
    }
  }
  l.blocks = static_cast<uint32_t>(launch[0]);
  l.blocks_y = static_cast<uint32_t>(launch[1]);
  l.blocks_z = static_cast<uint32_t>(launch[2]);
  l.shared = static_cast<uint32_t>(launch[3]);
  l.threads = a.block[0];
  l.threads_y = a.block[1];
  l.threads_z = a.block[2];
}

// Numbers of the operator that are sizes come before those of the launch.
size_t first_of_launch(const ExternalArgs& a) {
  size_t n = 0;
  for (const ExternalNumber& x : a.numbers) n += x.kind == ExternalNumber::Kind::size;
  return n;
}

std::shared_ptr<const void> load(std::span<const std::byte> constants, size_t operands, size_t sizes) {
  auto a = std::make_shared<ExternalArgs>(parse_external(constants, operands, sizes));
  const bool fits = sizes >= first_of_launch(*a) + sizes_of_launch && a->block[0] * a->block[1] * a->block[2] <= backend::cuda::hardware::max_threads;
  if (!fits) fail(Code::format, "the launch of external kernel {} does not fit its step", a->name);
  const size_t parameters = a->inputs.size() + a->numbers.size() + (sizes - first_of_launch(*a) - sizes_of_launch) + a->results;
  if (parameters > launch_tuning::max_parameters) fail(Code::format, "external kernel {} has {} parameters", a->name, parameters);
  return a;
}

void run(const Call& call) {
  const auto& a = *static_cast<const ExternalArgs*>(call.constants);
  for (size_t k = 0; k < a.written.size(); ++k) {
    const TensorRef &before = call.operands[a.inputs[a.written[k]]], &now = call.operands[a.inputs.size() + k];
    if (before.data != now.data) call.stream->copy(now.data, before.data, static_cast<size_t>(numel(now)) * ir::size_of(now.dtype));
  }
  run_launches(call);
}

}  // namespace

CudaLaunches external_cuda_launches(const Call& call, const CudaMachine&) {
  const auto& a = *static_cast<const ExternalArgs*>(call.constants);
  check_external(call, a);
  CudaLaunches out;
  if (is_empty(call, a)) return out;
  const size_t first = first_of_launch(a);
  CudaLaunch& l = out.list.emplace_back();
  l.kernel = a.entry;
  shape(l, a, call.sizes.subspan(first, sizes_of_launch));
  std::vector<size_t> from(a.inputs.begin(), a.inputs.end());
  for (size_t k = 0; k < a.written.size(); ++k) from[a.written[k]] = a.inputs.size() + k;
  Parameters parameters(l);
  for (size_t operand : from) parameters.pointer(operand);
  for (const ExternalNumber& n : a.numbers) {
    switch (n.kind) {
      case ExternalNumber::Kind::boolean: parameters.value(static_cast<uint8_t>(n.integer)); break;
      case ExternalNumber::Kind::real: a.number_bytes == 8 ? parameters.value(n.real) : parameters.value(static_cast<float>(n.real)); break;
      case ExternalNumber::Kind::integer: parameters.integer(n.integer, a.number_bytes, a.name); break;
      case ExternalNumber::Kind::size: parameters.integer(call.sizes[static_cast<size_t>(n.integer)], a.number_bytes, a.name); break;
    }
  }
  for (int64_t size : call.sizes.subspan(first + sizes_of_launch)) parameters.integer(size, a.number_bytes, a.name);
  for (size_t k = a.inputs.size() + a.written.size(); k < call.operands.size(); ++k) parameters.pointer(k);
  return out;
}

std::span<const RunKernel> external_cuda_kernels() {
  static constexpr RunKernel list[] = {{"external", load, resolved<external_cuda_launches>, run}};
  return list;
}

}  // namespace ingot::kernels
