// The "fused" step evaluates a body row by row. Operands and sizes are the body's.
#include <algorithm>

#include "backend/reference/run/body.h"
#include "base/error.h"

namespace ingot::kernels {

namespace {

using namespace backend::reference;

struct Rows {
  Bound body;
  size_t per_worker = 0;  // bytes of scratch
};

bool has(const Body& body, Kind kind) {
  return std::any_of(body.code.begin(), body.code.end(), [&](const Instruction& i) { return i.kind == kind; });
}

std::shared_ptr<const void> load(std::span<const std::byte> bytes, size_t operands, size_t sizes) {
  FieldReader from{bytes, "the constants of a fused step"};
  auto body = std::make_shared<Body>(read_body(from, operands, sizes, Stores::memory));
  if (has(*body, Kind::accumulator)) fail(Code::format, "a fused step reads an accumulator");
  return body;
}

Resolved resolve(const Call& call) {
  const auto& body = *static_cast<const Body*>(call.constants);
  auto rows = std::make_shared<Rows>();
  rows->body = bind(body, call.operands, call.sizes);
  rows->per_worker = (body.code.size() * sizeof(Value) + 63) / 64 * 64;
  const size_t scratch = static_cast<size_t>(call.workers->count()) * rows->per_worker;
  return {scratch, std::move(rows)};
}

void run(const Call& call) {
  const auto& r = *static_cast<const Rows*>(call.prepared);
  if (r.body.length == 0 && !has(*r.body.body, Kind::reduce)) return;
  const int64_t rows = r.body.rows, tasks = std::min<int64_t>(rows, 64);
  call.workers->run(tasks, [&](int64_t task, int worker) {
    Evaluator body(r.body, call.operands, reinterpret_cast<Value*>(call.scratch + static_cast<size_t>(worker) * r.per_worker));
    for (int64_t n = rows * task / tasks; n < rows * (task + 1) / tasks; ++n) body.row(n);
  });
}

}  // namespace

std::span<const RunKernel> fused_reference_kernels() {
  static constexpr RunKernel list[] = {{"fused", load, resolve, run}};
  return list;
}

}  // namespace ingot::kernels
