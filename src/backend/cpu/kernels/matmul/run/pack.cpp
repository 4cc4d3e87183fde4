// Packs B in panels: the "matmul_pack" kernel, and packing at run time of a B that is not packed.
#include "backend/cpu/kernels/matmul/run/pack.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "backend/cpu/kernels/fused/run/block_ops.h"
#include "backend/cpu/kernels/matmul/run/tile.h"
#include "backend/cpu/kernels/matmul/run/tuning.h"
#include "base/error.h"
#include "kernels/matmul/run/matmul_args.h"

namespace ingot::kernels {

using ir::DType;

bool half_or_float(DType t) { return t == DType::f32 || t == DType::f16 || t == DType::bf16; }
int64_t row_bytes(DType panel, const Groups& groups) {
  if (groups.size > 0) return tile_ops().columns * (groups.block_bytes() + groups.size / 2);
  return tile_ops().columns * panel_depth(panel) * static_cast<int64_t>(ir::size_of(panel));
}
int64_t panel_rows(DType panel, int64_t k, const Groups& groups) { return (k + row_depth(panel, groups) - 1) / row_depth(panel, groups); }

// True if `packed` has room for the panels of a [K, N] matrix of this type.
bool holds_panels(const TensorRef& packed, DType type, int64_t k, int64_t n, const Groups& groups) {
  if (groups.size > 0)
    return k >= 0 && k % groups.size == 0 && packed.dtype == DType::i8 && packed.rank == 1 && packed.strides[0] == 1 &&
           packed.dims[0] >= storage_bytes(panels_of(groups), std::array{k, n});
  return (ir::is_float(type) || type == DType::i8) && packed.dtype == type && packed.rank == 1 && packed.strides[0] == 1 &&
         packed.dims[0] >= storage_bytes(panels_of(type), std::array{k, n}) / static_cast<int64_t>(ir::size_of(type));
}

void pack_panels(const std::byte* data, DType dtype, int64_t row, int64_t column, int64_t k, int64_t n, int64_t p0, int64_t p1, std::byte* to) {
  const TileOps& ops = tile_ops();
  const BlockOps& block = block_ops();
  const auto size = static_cast<int64_t>(ir::size_of(dtype)), element = half_or_float(dtype) ? int64_t{4} : int64_t{8}, row_size = ops.columns * element;
  // Strips along K stay in cache for either order of the matrix: a transposed weight's rows are the panels' columns.
  constexpr int64_t strip = matmul::tuning::packed_rows;
  for (int64_t k0 = 0; k0 < k; k0 += strip) {
    const int64_t k1 = std::min(k, k0 + strip);
    for (int64_t p = p0; p < p1; ++p) {
      std::byte* panel = to + (p - p0) * k * row_size;
      const int64_t columns = std::min<int64_t>(ops.columns, n - p * ops.columns);
      const std::byte* from = data + p * ops.columns * column * size;
      if (row == 1 && size == element) {
        block.transpose_elements(static_cast<size_t>(size), panel + k0 * row_size, ops.columns, from + k0 * size, column, columns, k1 - k0);
      } else if (row == 1 && size == 2 && ir::is_float(dtype)) {
        uint16_t halves[strip * run_tuning::vectors_of_panel * backend::cpu::hardware::max_lanes];
        block.transpose_elements(2, halves, columns, from + k0 * size, column, columns, k1 - k0);
        for (int64_t i = k0; i < k1; ++i) block.load(dtype, panel + i * row_size, halves + (i - k0) * columns, 1, columns);
      } else {
        for (int64_t i = k0; i < k1; ++i) {
          std::byte* const to = panel + i * row_size;
          ir::is_integer(dtype) ? load_i64(dtype, reinterpret_cast<int64_t*>(to), from + i * row * size, column, columns)
                                : block.load(dtype, to, from + i * row * size, column, columns);
        }
      }
      for (int64_t i = k0; i < k1; ++i) std::fill(panel + i * row_size + columns * element, panel + (i + 1) * row_size, std::byte{});
    }
  }
}

namespace {

// Packs panels of a half type or of int8, in the same type.
template <class T, int depth>
void pack_numbers(const std::byte* matrix, int64_t row, int64_t column, int64_t k, int64_t n, int64_t p0, int64_t p1, std::byte* packed) {
  const auto* from = reinterpret_cast<const T*>(matrix);
  auto* to = reinterpret_cast<T*>(packed);
  const int64_t width = tile_ops().columns, rows = (k + depth - 1) / depth;
  for (int64_t p = p0; p < p1; ++p) {
    T* panel = to + (p - p0) * rows * depth * width;
    // Strips along K stay in cache for either order of the matrix.
    for (int64_t r0 = 0; r0 < rows; r0 += 32) {
      const int64_t r1 = std::min(rows, r0 + 32);
      for (int64_t j = 0; j < width; ++j) {
        const int64_t inside = p * width + j < n ? k : 0;
        const T* source = from + (p * width + j) * column;
        for (int64_t r = r0; r < r1; ++r) {
          for (int d = 0; d < depth; ++d) panel[(r * width + j) * depth + d] = r * depth + d < inside ? source[(r * depth + d) * row] : T{0};
        }
      }
    }
  }
}

// Rows 2 r and 2 r + 1 become pairs.
void interleave(const uint16_t* a, const uint16_t* b, uint16_t* to, int64_t n) {
  typedef uint16_t Eight __attribute__((vector_size(16), aligned(2), may_alias));
  int64_t j = 0;
  for (; j + 8 <= n; j += 8) {
    const Eight x = *reinterpret_cast<const Eight*>(a + j), y = *reinterpret_cast<const Eight*>(b + j);
    *reinterpret_cast<Eight*>(to + 2 * j) = __builtin_shufflevector(x, y, 0, 8, 1, 9, 2, 10, 3, 11);
    *reinterpret_cast<Eight*>(to + 2 * j + 8) = __builtin_shufflevector(x, y, 4, 12, 5, 13, 6, 14, 7, 15);
  }
  for (; j < n; ++j) to[2 * j] = a[j], to[2 * j + 1] = b[j];
}

std::shared_ptr<const void> load_pack(std::span<const std::byte>, size_t operands, size_t sizes) {
  if (operands != 2 || sizes != 2) fail(Code::format, "a matmul_pack step has {} operands and {} sizes", operands, sizes);
  return nullptr;
}

Resolved resolve_pack(const Call& call) {
  const TensorRef &b = call.operands[0], &to = call.operands[1];
  int64_t k = call.sizes[0], n = call.sizes[1];
  const bool types = (half_or_float(b.dtype) && to.dtype == DType::f32) || ((ir::is_float(b.dtype) || b.dtype == DType::i8) && to.dtype == b.dtype);
  if (!types || b.rank != 2 || b.dims[0] != k || b.dims[1] != n || !holds_panels(to, to.dtype, k, n)) fail(Code::format, "matmul_pack: the operands do not fit");
  return {};
}

void run_pack(const Call& call) {
  const TensorRef &b = call.operands[0], &to = call.operands[1];
  const TileOps& ops = tile_ops();
  int64_t k = call.sizes[0], n = call.sizes[1], panels = (n + ops.columns - 1) / ops.columns;
  call.workers->run(panels, [&](int64_t p, int) {
    std::byte* const panel = to.data + p * panel_rows(to.dtype, k) * row_bytes(to.dtype);
    if (to.dtype == b.dtype) return pack_own_type(b.data, b.dtype, b.strides[0], b.strides[1], k, n, p, p + 1, panel);
    pack_panels(b.data, b.dtype, b.strides[0], b.strides[1], k, n, p, p + 1, panel);
  });
  // The room after the panels, which tiles may read ahead: equal weights are equal in each byte, so that a process can keep them once.
  std::fill(to.data + panels * panel_rows(to.dtype, k) * row_bytes(to.dtype), to.data + to.dims[0] * static_cast<int64_t>(ir::size_of(to.dtype)), std::byte{});
}

// The scales and zeros of one group, then its numbers, of the columns from n0 on.
void pack_group(std::span<const TensorRef> in, const Groups& groups, int64_t group, int64_t n0, int64_t columns, std::byte* to) {
  const int64_t width = tile_ops().columns;
  const TensorRef &numbers = in[0], &scale = in[1];
  const auto scale_size = static_cast<int64_t>(ir::size_of(scale.dtype));
  const std::byte* scales = scale.data + (group * scale.strides[0] + n0 * scale.strides[1]) * scale_size;
  for (int64_t j = 0; j < columns; ++j) {
    const std::byte* from = scales + j * scale.strides[1] * scale_size;
    if (groups.scale_bytes == scale_size) {
      std::memcpy(to + j * groups.scale_bytes, from, static_cast<size_t>(scale_size));
    } else {
      uint16_t half;
      std::memcpy(&half, from, sizeof half);
      const float wide = ir::f16_to_float(half);
      std::memcpy(to + j * groups.scale_bytes, &wide, sizeof wide);
    }
  }
  to += width * groups.scale_bytes;
  if (groups.zero) {
    const auto* zeros = reinterpret_cast<const int8_t*>(in[2].data) + group * in[2].strides[0] + n0 * in[2].strides[1];
    for (int64_t j = 0; j < columns; ++j) to[j] = static_cast<std::byte>(zeros[j * in[2].strides[1]]);
    to += width;
  }
  const auto* first = reinterpret_cast<const int8_t*>(numbers.data) + group * groups.size * numbers.strides[0] + n0 * numbers.strides[1];
  auto* words = reinterpret_cast<uint32_t*>(to);
  for (int64_t j = 0; j < columns; ++j) {
    for (int64_t k = 0; k < groups.size; ++k) words[k / 8 * width + j] |= (static_cast<uint32_t>(first[k * numbers.strides[0] + j * numbers.strides[1]]) & 15) << (k % 8 * 4);
  }
}

std::shared_ptr<const void> load_pack_groups(std::span<const std::byte>, size_t operands, size_t sizes) {
  if (operands < 3 || operands > 4 || sizes != 2) fail(Code::format, "a matmul_pack_groups step has {} operands and {} sizes", operands, sizes);
  return nullptr;
}

// The groups that the operands of a matmul_pack_groups step have; an invalid one: they do not fit together.
Groups groups_of(const Call& call) {
  const std::span<const TensorRef> in = call.operands;
  const int64_t k = call.sizes[0], n = call.sizes[1], groups = in[1].rank == 2 ? in[1].dims[0] : 0;
  if (groups < 1 || k % groups != 0 || k / groups > UINT8_MAX || !half_or_float(in[1].dtype) || in[1].dims[1] != n) return {};
  const bool numbers = in[0].dtype == DType::i8 && in[0].rank == 2 && in[0].dims[0] == k && in[0].dims[1] == n;
  const bool zeros = in.size() == 3 || (in[2].dtype == DType::i8 && in[2].rank == 2 && in[2].dims[0] == groups && in[2].dims[1] == n);
  return numbers && zeros ? Groups{static_cast<uint8_t>(k / groups), static_cast<uint8_t>(in[1].dtype == DType::bf16 ? 2 : 4), in.size() == 4} : Groups{};
}

Resolved resolve_pack_groups(const Call& call) {
  const Groups groups = groups_of(call);
  if (!groups.valid() || !holds_panels(call.operands.back(), DType::i8, call.sizes[0], call.sizes[1], groups)) fail(Code::format, "matmul_pack_groups: the operands do not fit");
  return {};
}

void run_pack_groups(const Call& call) {
  const Groups groups = groups_of(call);
  const TensorRef& to = call.operands.back();
  const int64_t n = call.sizes[1], width = tile_ops().columns, bytes = row_bytes(DType::i8, groups), rows = panel_rows(DType::i8, call.sizes[0], groups),
                panels = (n + width - 1) / width;
  call.workers->run(panels, [&](int64_t p, int) {
    std::byte* const panel = to.data + p * rows * bytes;
    std::fill(panel, panel + rows * bytes, std::byte{});
    for (int64_t g = 0; g < rows; ++g) pack_group(call.operands, groups, g, p * width, std::min(width, n - p * width), panel + g * bytes);
  });
  std::fill(to.data + panels * rows * bytes, to.data + to.dims[0], std::byte{});  // as in run_pack
}

}  // namespace

void pack_own_type(const std::byte* data, DType type, int64_t row, int64_t column, int64_t k, int64_t n, int64_t p0, int64_t p1, std::byte* to) {
  if (type == DType::f32 || type == DType::f64) return pack_panels(data, type, row, column, k, n, p0, p1, to);
  const auto pack = type == DType::bf16 ? pack_numbers<uint16_t, panel_depth(DType::bf16)>
                    : type == DType::i8 ? pack_numbers<int8_t, panel_depth(DType::i8)>
                                        : pack_numbers<uint16_t, panel_depth(DType::f16)>;
  pack(data, row, column, k, n, p0, p1, to);
}

void pack_pairs(const std::byte* data, int64_t row, int64_t column, int64_t k, int64_t n, int64_t p0, int64_t p1, std::byte* to) {
  constexpr int depth = panel_depth(DType::bf16);
  const int64_t width = tile_ops().columns, rows = (k + depth - 1) / depth;
  const bool pairs = row == 1 && column % 2 == 0 && reinterpret_cast<uintptr_t>(data) % alignof(float) == 0;
  for (int64_t p = p0; p < p1; ++p, to += rows * row_bytes(DType::bf16)) {
    const int64_t columns = std::min(width, n - p * width), whole = k / depth;
    const std::byte* const from = data + p * width * column * 2;
    if (pairs) {  // two neighbours of a column move together
      block_ops().transpose(reinterpret_cast<float*>(to), width, reinterpret_cast<const float*>(from), column / 2, columns, whole);
      for (int64_t r = 0; columns < width && r < whole; ++r) std::memset(to + (r * width + columns) * 4, 0, static_cast<size_t>(width - columns) * 4);
    } else if (column == 1) {
      const auto* source = reinterpret_cast<const uint16_t*>(from);
      for (int64_t r = 0; r < whole; ++r) {
        auto* out = reinterpret_cast<uint16_t*>(to) + r * width * depth;
        interleave(source + r * depth * row, source + (r * depth + 1) * row, out, columns);
        std::fill(out + columns * depth, out + width * depth, uint16_t{0});
      }
    } else {
      pack_numbers<uint16_t, depth>(from, row, column, k, columns, 0, 1, to);
      continue;
    }
    if (whole == rows) continue;
    auto* last = reinterpret_cast<uint16_t*>(to) + whole * width * depth;
    std::fill(last, last + width * depth, uint16_t{0});
    for (int64_t j = 0; j < columns; ++j) last[j * depth] = reinterpret_cast<const uint16_t*>(from)[(k - 1) * row + j * column];
  }
}

const RunKernel matmul_pack_kernel{"matmul_pack", load_pack, resolve_pack, run_pack};
const RunKernel matmul_pack_groups_kernel{"matmul_pack_groups", load_pack_groups, resolve_pack_groups, run_pack_groups};

}  // namespace ingot::kernels
