#include "backend/cuda/kernels/gemm/packed/packing.h"

#include "backend/cuda/kernels/gemm/packed/run/tuning.h"
#include "backend/groups.h"
#include "ir/compose.h"

namespace ingot::backend::cuda {

using namespace ir;
using kernels::packed_columns;
using kernels::packed_depth;
using kernels::PackedB;

namespace {

constexpr int64_t half_panel = packed_columns / 2;

Dim rounded_up(const Dim& size, int64_t to) { return (size.value() + to - 1) / to * to; }

// Numbers of `bits` bits along the last axis as words: number i is shifted by shifts[i].
Handle words(const Handle& numbers, int64_t bits, std::initializer_list<int> shifts) {
  const Handle low = cast(numbers, DType::i32) & ir::Operand((int64_t{1} << bits) - 1);
  std::optional<Handle> out;
  int64_t i = 0;
  for (int shift : shifts) {
    const Handle one = map(Op::shift_left, {take(low, -1, Dim(i++)), shift});
    out = out ? *out | one : one;
  }
  return *out;
}

// [K / group, N] as [panels, chunks, columns 0 .. 7, groups of a chunk, columns apart by 8].
Handle of_groups(const Handle& x, const Dim& panels, const Dim& chunks, int64_t groups) {
  const Handle columns = transpose(x, 0, 1);
  const Handle all = pad(columns, {0, 0}, {panels * packed_columns - columns.dim(0), chunks * groups - columns.dim(1)}, 0);
  return permute(reshape(all, {panels, 2, half_panel, chunks, groups}), {0, 3, 2, 4, 1});
}

// `in`: numbers [K, N], then scales and zeros [K / group, N] if there are any.
Handle pack(const Encoding& encoding, std::span<const Handle> in) {
  const PackedB b = *kernels::packed_b(encoding);
  const Dim k = rounded_up(in[0].dim(0), packed_depth), n = rounded_up(in[0].dim(1), packed_columns);
  const Dim panels = n.value() / packed_columns, chunks = k.value() / packed_depth;
  const Handle columns = pad(transpose(in[0], 0, 1), {0, 0}, {n - in[0].dim(1), k - in[0].dim(0)}, 0);
  // A lane has eight numbers of 32 of each of two columns. An instruction multiplies by four of them: two pairs of each column.
  std::vector<Handle> parts;
  if (b.group != 0) {
    const Handle scale = of_groups(in[1], panels, chunks, b.groups());
    const Dim count = half_panel * b.groups();
    parts.push_back(b.scale_bytes == 2 ? words(reshape(bitcast(scale, DType::i16), {panels, chunks, count, 2}), 16, {0, 16})
                                       : reshape(bitcast(cast(scale, DType::f32), DType::i32), {panels, chunks, count * Dim(2)}));
  }
  if (b.zero) parts.push_back(words(reshape(of_groups(in[2], panels, chunks, b.groups()), {panels, chunks, half_panel * b.groups() / 2, 4}), 8, {0, 8, 16, 24}));
  const Dim count = packed_columns * packed_depth * b.bits / static_cast<int64_t>(8 * size_of(DType::i32));
  if (b.bits == 4) {
    // Axes: panel, column / 8, column, chunk, 64 of K, 32, eight, four, pair, number.
    const Handle split = reshape(columns, {panels, 2, half_panel, chunks, 2, 2, 4, 2, 2, 2});
    const Handle ordered = reshape(permute(split, {0, 3, 4, 2, 6, 5, 7, 8, 1, 9}), {panels, chunks, count, 8});
    parts.push_back(words(cast(ordered, DType::i32) + 8, 4, {0, 16, 4, 20, 8, 24, 12, 28}));
  } else {
    // Axes: panel, column / 8, column, chunk, 32 of K, eight, four, pair, number.
    const Handle split = reshape(columns, {panels, 2, half_panel, chunks, 4, 4, 2, 2, 2});
    parts.push_back(words(reshape(permute(split, {0, 3, 4, 2, 5, 6, 7, 1, 8}), {panels, chunks, count, 4}), 8, {0, 8, 16, 24}));
  }
  return parts.size() > 1 ? concat(parts, 2) : parts[0];
}

}  // namespace

std::optional<PackedB> packing_of(const Gemm& g, bool hopper) {
  const bool is_one_matrix = !g.map && g.row_ends == nullptr && g.b.size() == 1;
  if (!g.constant || g.packed || !g.encoding || !is_one_matrix) return std::nullopt;
  const Dims& dims = g.b[0].dims;
  if (dims.size() != 2 || !dims[0].is_constant() || !dims[1].is_constant()) return std::nullopt;
  namespace tuning = kernels::gemm::packed_tuning;
  const int64_t halves = g.type == DType::f32 ? 3 : 1;  // a float is three numbers of bfloat16
  if (2 * halves * dims[0].value() > (hopper ? tuning::max_row_bytes_of_hopper : tuning::max_row_bytes)) return std::nullopt;
  if (const kernels::Groups groups = groups_of(g); groups.size > 0) return PackedB{4, groups.size, groups.scale_bytes, groups.zero};
  return g.encoding->storage == DType::i8 && is_scaled_by_column(*g.encoding) ? std::optional(PackedB{}) : std::nullopt;
}

Packing packing_for(const PackedB& b) { return {"gemm_packed", b.encoding(), pack}; }

}  // namespace ingot::backend::cuda
