// Sort and topk on the CPU. Elements become keys with positions, which are sorted or chosen; values are read where they were.
#include "backend/cpu/kernels/sort/run/select.h"
#include "backend/cpu/run/isa.h"
#include "kernels/run/elements.h"
#include "kernels/sort/run/sort_checks.h"

namespace ingot::kernels {

namespace {

int64_t length_of(const TensorRef& in, int axis) { return in.rank == 0 ? 1 : in.dims[axis]; }

bool is_narrow(const TensorRef& in) { return ir::size_of(in.dtype) <= 4; }

size_t bytes_of_line(const TensorRef& in, int axis) {
  return (static_cast<size_t>(length_of(in, axis)) * 2 * (is_narrow(in) ? sizeof(NarrowItem) : sizeof(WideItem)) + 63) / 64 * 64;
}

Resolved resolve(const Call& call) {
  check_sort(call);
  const auto& args = *static_cast<const SortArgs*>(call.constants);
  if (const int64_t length = length_of(call.operands[0], args.axis); length > int64_t{UINT32_MAX}) fail(Code::unsupported, "a sort over {} elements is too large", length);
  return {static_cast<size_t>(call.workers->count()) * bytes_of_line(call.operands[0], args.axis), nullptr};
}

template <class M>
void copy_element(const TensorRef& to, int64_t at, const TensorRef& from, int64_t place) {
  reinterpret_cast<M*>(to.data)[at] = reinterpret_cast<const M*>(from.data)[place];
}

// One line: its first element in each operand, and the steps along it.
struct Line {
  int64_t from = 0, to_values = 0, to_indices = 0;
  int64_t step = 0, values_step = 0, indices_step = 0;
};

template <class Item>
void run_line(const Call& call, const Line& line, int64_t length, int64_t k, std::byte* scratch) {
  const bool down = static_cast<const SortArgs*>(call.constants)->descending;
  const TensorRef &in = call.operands[0], &values = call.operands[1], &indices = call.operands[2];
  auto* items = reinterpret_cast<Item*>(scratch);
  using Key = typename Item::Key;
  const Key flip = down ? ~Key{0} : 0;
  const KeyOps& ops = key_ops();
  least_items(items, items + length, length, k, [&](Key* to, int64_t begin, int64_t n) {
    const std::byte* x = element(in, line.from + begin * line.step);
    if constexpr (sizeof(Key) == 4) {
      ops.narrow(in.dtype, to, x, line.step, flip, n);
    } else {
      ops.wide(in.dtype, to, x, line.step, flip, n);
    }
  });
  auto put = [&](auto type) {
    using M = decltype(type);
    for (int64_t i = 0; i < k; ++i) copy_element<M>(values, line.to_values + i * line.values_step, in, line.from + items[i].position() * line.step);
  };
  switch (ir::size_of(in.dtype)) {
    case 1: put(uint8_t{}); break;
    case 2: put(uint16_t{}); break;
    case 4: put(uint32_t{}); break;
    default: put(uint64_t{});
  }
  auto* positions = reinterpret_cast<int64_t*>(indices.data) + line.to_indices;
  for (int64_t i = 0; i < k; ++i) positions[i * line.indices_step] = items[i].position();
}

void run(const Call& call) {
  const auto& args = *static_cast<const SortArgs*>(call.constants);
  const TensorRef &in = call.operands[0], &values = call.operands[1], &indices = call.operands[2];
  const int axis = args.axis;
  const int64_t length = length_of(in, axis), k = length_of(values, axis);
  if (numel(values) == 0) return;
  const size_t line_bytes = bytes_of_line(in, axis);
  const bool narrow = is_narrow(in);
  for_lines(in, axis, *call.workers, [&](const int64_t* at, int worker) {
    Line line;
    for (int d = 0; d < in.rank; ++d) {
      line.from += d == axis ? 0 : at[d] * in.strides[d];
      line.to_values += d == axis ? 0 : at[d] * values.strides[d];
      line.to_indices += d == axis ? 0 : at[d] * indices.strides[d];
    }
    if (in.rank > 0) line.step = in.strides[axis], line.values_step = values.strides[axis], line.indices_step = indices.strides[axis];
    std::byte* scratch = call.scratch + static_cast<size_t>(worker) * line_bytes;
    narrow ? run_line<NarrowItem>(call, line, length, k, scratch) : run_line<WideItem>(call, line, length, k, scratch);
  });
}

}  // namespace

const KeyOps& key_ops() {
  static const KeyOps& chosen = INGOT_TABLES(key_ops).best();
  return chosen;
}

std::span<const RunKernel> sort_cpu_kernels() {
  static constexpr RunKernel list[] = {{"sort", load_sort, resolve, run}};
  return list;
}

}  // namespace ingot::kernels
