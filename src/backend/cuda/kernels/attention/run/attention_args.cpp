#include "backend/cuda/kernels/attention/run/attention_args.h"

#include <algorithm>

#include "backend/cuda/kernels/attention/run/tuning.h"
#include "backend/cuda/kernels/run/number_fields.h"

namespace ingot::kernels {

namespace {

constexpr uint32_t magic = 0x38444341;  // "ACD8"

template <class S, class A>
void fields(S& s, A& a) {
  s.text(a.name);
  s.all(a.batch_rank, a.depth, a.width, a.filled, a.columns, a.only, a.parts, a.heads, a.printed, a.rows, a.sizes);
  s.list(a.operands, [&](auto& o) { s.all(o.dtype, o.gathered); });
  number_fields(s, a.numbers, a.known);
}

void check(const AttentionCudaArgs& a) {
  auto require = [](bool good, const char* what) {
    if (!good) fail(Code::format, "the arguments of an attention step for CUDA are damaged: {}", what);
  };
  require(a.batch_rank <= AttentionCudaArgs::max_rank - 2 && attention_cuda_head(a.depth) && attention_cuda_head(a.width), "sizes");
  require(a.only < AttentionCudaArgs::measured || a.only == AttentionCudaArgs::by_sizes, "variant");
  require(a.heads == 0 || (a.parts && a.heads <= attention_cuda_tuning::few_queries && a.batch_rank >= 2), "heads");
  require(a.printed >= 1 && a.printed <= 3, "variants");
  require(a.rows <= AttentionCudaArgs::in_boxes, "rows");
  require(!a.boxes() || (std::max(a.depth, a.width) <= AttentionCudaArgs::max_boxed_head && a.batch_rank <= AttentionCudaArgs::max_box_axes && !a.columns && !a.filled &&
                         !a.parts && a.operands.size() == 4),
          "boxes");
  require(a.sizes >= 4 && a.sizes <= 250 && a.operands.size() >= size_t{4} + a.filled && a.operands.size() <= 250, "operands");
  require(!a.filled || (a.batch_rank > 0 && a.operands[a.filled_operand()].dtype == ir::DType::i64), "numbers of keys");
  for (const auto& o : a.operands) require(static_cast<int>(o.dtype) < ir::dtype_count && o.gathered <= AttentionCudaArgs::max_rank, "operand");
  for (size_t k : {size_t{0}, size_t{1}, size_t{2}, a.operands.size() - 1}) require(a.operands[k].gathered == 0 && a.operands[k].dtype == a.operands[0].dtype, "operand");
  require(a.operands[0].dtype == ir::DType::f16 || a.operands[0].dtype == ir::DType::bf16, "type");
  std::vector<size_t> ranks;
  for (const auto& o : a.operands) ranks.push_back(size_t{a.batch_rank} + 2 + o.gathered);
  if (a.filled) ranks[a.filled_operand()] = 1;
  require(do_exist(a.numbers, a.known, a.sizes, ranks), "number");
}

constexpr AttentionCudaArgs::Shape by_warps(uint32_t warps, uint32_t splits, uint32_t keys) { return {0, warps, splits, keys, 2, false, 1}; }
constexpr AttentionCudaArgs::Shape by_groups(uint32_t groups, uint32_t keys, uint32_t stages, bool overlap, uint32_t blocks) {
  return {groups, groups * 4, 1, keys, stages, overlap, blocks};
}
constexpr AttentionCudaArgs::Shape by_boxes(uint32_t groups, uint32_t keys, uint32_t stages) { return {groups, groups * 4, 1, keys, stages, true, 1, true}; }
// For heads up to 64, up to 128, and wider.
constexpr AttentionCudaArgs::Shape wide = by_groups(1, 64, 2, false, 1), wide_warps = by_warps(4, 1, 32);
constexpr AttentionCudaArgs::Shape shapes[AttentionCudaArgs::measured][3] = {
    {by_groups(1, 128, 2, true, 3), by_warps(1, 4, 64), wide},
    {by_groups(1, 64, 2, false, 4), by_groups(1, 64, 2, true, 2), wide},
    {by_warps(4, 1, 64), by_warps(4, 1, 64), wide_warps},
    // ---- measured
    {by_warps(2, 1, 64), by_warps(2, 1, 64), wide_warps},
    {by_warps(2, 4, 128), by_warps(2, 2, 64), wide_warps},
    {by_groups(1, 64, 2, true, 4), by_groups(1, 64, 2, false, 2), wide_warps},
    {by_groups(2, 64, 2, true, 2), by_groups(2, 64, 2, true, 1), wide_warps},
    {by_groups(2, 80, 2, true, 2), by_groups(2, 128, 2, true, 1), wide_warps},
    {by_groups(2, 128, 2, true, 1), by_groups(3, 64, 2, true, 1), wide_warps},
    {by_boxes(3, 128, 4), by_boxes(2, 128, 2), wide_warps},
    {by_boxes(2, 128, 4), by_boxes(2, 96, 3), wide_warps},
};

// Variant 1 for long rows: with heads up to 48 and up to 96 (H200: 0.92 and 0.8 of the other's time at 4096 and 1024 queries); with few keys; without a mask, in
// boxes (docs/performance-notes/attention.md, 0077).
constexpr AttentionCudaArgs::Shape long_narrow = by_groups(2, 64, 2, true, 2), long_middle = by_groups(2, 128, 2, true, 1), short_narrow = by_groups(2, 80, 2, true, 2);
constexpr AttentionCudaArgs::Shape boxes_narrow = by_boxes(3, 128, 4), boxes_wide = by_boxes(2, 128, 2);

}  // namespace

AttentionCudaArgs::Shape AttentionCudaArgs::shape(int variant) const {
  using namespace attention_cuda_tuning;
  const uint16_t head = std::max(depth, width);
  const int width_class = head > wide_head ? 2 : head > usual_head ? 1 : 0;
  if (variant == 1 && only == by_sizes && rows != short_rows) {
    if (boxes()) return head <= usual_head ? boxes_narrow : boxes_wide;
    if (rows == one_iteration_of_keys && head <= usual_head) return short_narrow;
    if (head <= narrow_head) return long_narrow;
    if (rows == unmasked && head <= usual_head) return shapes[0][0];
    if (head > usual_head && head <= middle_head) return long_middle;
  }
  const Shape& shape = shapes[variant][width_class];
  return shape.boxes && !boxes() ? shapes[1][width_class] : shape;
}

AttentionCudaArgs::Shape AttentionCudaArgs::shape_of_parts() const { return std::max(depth, width) > attention_cuda_tuning::wide_head ? by_warps(1, 2, 32) : by_warps(1, 4, 64); }

uint32_t AttentionCudaArgs::Shape::shared(uint32_t depth, uint32_t width) const {
  const uint32_t d = (depth + 63) / 64 * 64, e = (width + 63) / 64 * 64, bytes = 2 * (queries() * d + 2 * alone().keys * (d + e));
  if (boxes) {
    // Results, or a group's sums for another group.
    const uint32_t results = std::max(2 * queries() * e, 512 * ((width + 15) / 16 * 8 + 4));
    return std::max(bytes, 2 * queries() * d + results + 2 * stages * keys * (d + e) + 8 * (4 * stages + 2 * groups));
  }
  return groups == 0 ? bytes : std::max(bytes, 2 * (queries() * std::max(d, e) + stages * keys * (d + e)));
}

std::vector<std::byte> serialise(const AttentionCudaArgs& a) {
  return to_bytes(magic, a, [](auto& stream, auto& args) { fields(stream, args); });
}

AttentionCudaArgs parse_attention_cuda(std::span<const std::byte> bytes) {
  auto a = from_bytes<AttentionCudaArgs>(bytes, magic, "the arguments of an attention step for CUDA", [](auto& stream, auto& args) { fields(stream, args); });
  check(a);
  return a;
}

}  // namespace ingot::kernels
