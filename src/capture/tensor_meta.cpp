#include "capture/tensor_meta.h"

#include <algorithm>
#include <cstring>

namespace ingot::capture {

using ir::DType;

DType dtype_of(int64_t code, std::string_view owner) {
  auto refuse = [&](std::string_view name) {
    throw Error(Code::unsupported, fmt::format("{} has dtype {}, which is not supported", owner, name))
        .fix("convert it to float32, float64, float16, bfloat16, bool, uint8, int8, int16, int32 or int64");
  };
  switch (code) {
    case 1: return DType::u8;
    case 2: return DType::i8;
    case 3: return DType::i16;
    case 4: return DType::i32;
    case 5: return DType::i64;
    case 6: return DType::f16;
    case 7: return DType::f32;
    case 8: return DType::f64;
    case 9: return DType::c32;
    case 10: return DType::c64;
    case 11: return DType::c128;
    case 12: return DType::b8;
    case 13: return DType::bf16;
    case 28: return DType::u16;
    case 34: return DType::u32;
    case 35: return DType::u64;
    case 29: refuse("float8_e4m3fn"); break;
    case 30: refuse("float8_e5m2"); break;
    case 31: refuse("float8_e4m3fnuz"); break;
    case 32: refuse("float8_e5m2fnuz"); break;
    case 33: refuse("float8_e8m0fnu"); break;
  }
  fail(Code::format, "the model's JSON is damaged: dtype number {} is unknown", code);
}

namespace {

int64_t checked_mul(int64_t a, int64_t b, std::string_view name) {
  int64_t r;
  if (__builtin_mul_overflow(a, b, &r)) fail(Code::format, "weight {} is recorded with impossible sizes", name);
  return r;
}

void copy_strided(std::byte* to, const std::byte* from, const std::vector<int64_t>& dims, const std::vector<int64_t>& strides, size_t axis, size_t item) {
  if (axis == dims.size()) {
    std::memcpy(to, from, item);
    return;
  }
  size_t step = item;
  for (size_t i = axis + 1; i < dims.size(); ++i) step *= static_cast<size_t>(dims[i]);
  for (int64_t i = 0; i < dims[axis]; ++i) {
    copy_strided(to + static_cast<size_t>(i) * step, from + i * strides[axis] * static_cast<int64_t>(item), dims, strides, axis + 1, item);
  }
}

void copy_row_major(ir::Weight& weight, const std::byte* from, const std::vector<int64_t>& dims, const std::vector<int64_t>& strides, size_t item) {
  auto copy = std::make_shared<std::vector<std::byte>>(weight.bytes);
  copy_strided(copy->data(), from, dims, strides, 0, item);
  weight.data = copy->data();
  weight.keep = std::move(copy);
}

}  // namespace

void find_bytes(ir::Weight& weight, const TensorMeta& meta, std::span<const std::byte> storage, std::shared_ptr<const void> keep) {
  const std::string& name = weight.name;
  auto item = static_cast<int64_t>(size_of(meta.type.dtype));
  std::vector<int64_t> dims, strides;
  for (const ir::Dim& d : meta.type.dims) {
    if (!d.is_constant()) fail(Code::unsupported, "weight {} has a size that is not constant", name);
    dims.push_back(d.value());
  }
  for (const ir::Dim& s : meta.strides) {
    if (!s.is_constant() || s.value() < 0) fail(Code::format, "weight {} is recorded with impossible strides", name);
    strides.push_back(s.value());
  }
  if (!meta.offset.is_constant() || meta.offset.value() < 0 || strides.size() != dims.size()) {
    fail(Code::format, "weight {} is recorded with impossible strides", name);
  }
  int64_t count = 1, last = meta.offset.value(), row_major = 1;
  bool contiguous = true;
  for (size_t i = dims.size(); i-- > 0;) {
    count = checked_mul(count, dims[i], name);
    if (dims[i] > 1) {
      contiguous = contiguous && strides[i] == row_major;
      int64_t reach = checked_mul(dims[i] - 1, strides[i], name);
      if (__builtin_add_overflow(last, reach, &last)) fail(Code::format, "weight {} is recorded with impossible sizes", name);
    }
    row_major = checked_mul(row_major, dims[i], name);
  }
  int64_t bytes = checked_mul(count, item, name);
  weight.data = storage.data();
  weight.bytes = static_cast<size_t>(bytes);
  weight.keep = std::move(keep);
  if (count == 0) return;
  int64_t needed = 0;
  if (__builtin_add_overflow(last, 1, &needed)) fail(Code::format, "weight {} is recorded with impossible sizes", name);
  needed = checked_mul(needed, item, name);
  if (static_cast<uint64_t>(needed) > storage.size()) {
    fail(Code::format, "weight {} needs {} bytes of its storage, which has {}", name, needed, storage.size());
  }
  const std::byte* first = storage.data() + meta.offset.value() * item;
  bool aligned = reinterpret_cast<uintptr_t>(first) % static_cast<uintptr_t>(item) == 0;
  std::vector<int64_t> order = memory_order(meta);
  if (aligned && (contiguous || !order.empty())) {
    weight.data = first;
    weight.order = std::move(order);
    return;
  }
  // An expanded weight could be far larger than its file; the copy is what the graph works on, so only a sane size is taken.
  if (bytes > (int64_t{1} << 40)) fail(Code::format, "weight {} is recorded with impossible sizes", name);
  copy_row_major(weight, first, dims, strides, static_cast<size_t>(item));
}

void make_row_major(ir::Weight& weight, const ir::Type& type) {
  std::vector<int64_t> dims, strides(type.dims.size());
  for (const ir::Dim& d : type.dims) dims.push_back(d.value());
  int64_t next = 1;
  for (size_t i = weight.order.size(); i-- > 0;) {
    const auto axis = static_cast<size_t>(weight.order[i]);
    strides[axis] = next;
    next *= dims[axis];
  }
  weight.order.clear();
  copy_row_major(weight, weight.data, dims, strides, size_of(type.dtype));
}

std::vector<int64_t> memory_order(const TensorMeta& meta) {
  const ir::Dims& dims = meta.type.dims;
  if (meta.strides.size() != dims.size()) return {};
  // Axes of size 1 have no place of their own: they stay where they are among the others.
  std::vector<size_t> moving, inner;  // from the innermost
  for (size_t i = dims.size(); i-- > 0;) {
    if (!(dims[i] == ir::Dim(1))) moving.push_back(i);
  }
  std::vector<bool> placed(dims.size(), false);
  for (ir::Dim expected = 1; inner.size() < moving.size();) {
    auto next = std::find_if(moving.begin(), moving.end(), [&](size_t i) { return !placed[i] && meta.strides[i] == expected; });
    if (next == moving.end()) return {};
    placed[*next] = true;
    inner.push_back(*next);
    expected *= dims[*next];
  }
  if (inner == moving) return {};
  std::vector<int64_t> order;
  for (size_t i = 0; i < dims.size(); ++i) {
    order.push_back(static_cast<int64_t>(dims[i] == ir::Dim(1) ? i : inner.back()));
    if (!(dims[i] == ir::Dim(1))) inner.pop_back();
  }
  return order;
}

std::vector<int64_t> order_with_gaps(const TensorMeta& meta, std::span<const ir::Symbol> symbols) {
  const ir::Dims& dims = meta.type.dims;
  std::vector<int64_t> order = memory_order(meta);
  if (!order.empty() || meta.strides.size() != dims.size()) return order;
  std::vector<size_t> rest;  // axes without a place, of more than one element
  for (size_t i = 0; i < dims.size(); ++i) {
    order.push_back(static_cast<int64_t>(i));
    if (dims[i] == ir::Dim(1)) continue;
    if (ir::known_less(0, meta.strides[i], symbols) != ir::Truth::yes) return {};
    rest.push_back(i);
  }
  bool permuted = false;
  for (size_t place = 0; place < dims.size(); ++place) {
    if (dims[place] == ir::Dim(1)) continue;
    auto outermost = std::find_if(rest.begin(), rest.end(), [&](size_t i) {
      return std::all_of(rest.begin(), rest.end(), [&](size_t other) { return other == i || ir::known_less(meta.strides[i], meta.strides[other], symbols) == ir::Truth::no; });
    });
    if (outermost == rest.end()) return {};
    permuted |= *outermost != place;
    order[place] = static_cast<int64_t>(*outermost);
    rest.erase(outermost);
  }
  return permuted ? order : std::vector<int64_t>();
}

}  // namespace ingot::capture
