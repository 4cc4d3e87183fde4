// Views, copies, concatenations and splits.
#include <algorithm>
#include <cstdlib>
#include <map>

#include "base/error.h"
#include "ir/compose_nodes.h"
#include "ir/strided_layout.h"
#include "ops/bits.h"
#include "ops/segments.h"

namespace ingot::ops {

using namespace ir;

namespace {

// ATen treats a 0-d tensor as one of size 1 where an axis is named.
Value at_least_1d(const Value& x) { return x.rank() == 0 ? reshape(x, {Dim(1)}) : x; }

std::vector<Value> parts_of(const Value& x, int64_t dim, const Dims& sizes) {
  std::vector<Value> out;
  Dim start = 0;
  for (const Dim& size : sizes) {
    out.push_back(view(x, slice_map(x.dims(), x.axis(dim), start, size, 1)));
    start += size;
  }
  return out;
}

// A negative start counts from the end.
Value narrow(const Value& x, int64_t dim, Dim start, const Dim& length) {
  start = from_front(start, x.dim(dim), x.graph().symbols);
  require(x.graph(), start + length, ir::Check::less_equal, x.dim(dim), "the narrowed part is inside the axis");
  return view(x, slice_map(x.dims(), x.axis(dim), start, length, 1));
}

// The number of parts of a dynamic size is the recorded one, checked at run time.
std::vector<Value> split(Recorded recorded, const Value& given, const Dim& size, int64_t dim) {
  Value x = at_least_1d(given);
  Dim total = x.dim(dim), count = max(ceildiv(total, size), 1);
  const int64_t n = count.is_constant() ? count.value() : static_cast<int64_t>(recorded.results);
  require(x.graph(), count, ir::Check::equal, n, "the tensor splits into as many parts as when it was captured");
  Dims sizes(static_cast<size_t>(n - 1), size);
  sizes.push_back(total - size * Dim(n - 1));
  return parts_of(x, dim, sizes);
}

std::vector<Value> chunk(Recorded recorded, const Value& x, int64_t chunks, int64_t dim) { return split(recorded, x, max(ceildiv(x.dim(dim), chunks), 1), dim); }

std::vector<Value> unbind(Recorded recorded, const Value& x, int64_t dim) {
  const Dim count = x.dim(dim);
  const int64_t n = count.is_constant() ? count.value() : static_cast<int64_t>(recorded.results);
  require(x.graph(), count, ir::Check::equal, n, "the axis has as many elements as when it was captured");
  std::vector<Value> out;
  for (int64_t i = 0; i < n; ++i) out.push_back(take(x, dim, i));
  return out;
}

Value squeeze_all(Value x, Axes axes) {
  for (Axis& a : axes) a = x.axis(a);
  std::sort(axes.begin(), axes.end());
  for (size_t i = axes.size(); i-- > 0;) x = squeeze(x, axes[i]);
  return x;
}

Value stack(const std::vector<Value>& parts, int64_t dim) {
  std::vector<Value> out;
  if (dim < 0) dim += parts[0].rank() + 1;
  for (const Value& p : parts) out.push_back(unsqueeze(p, dim));
  return concat(out, dim);
}

Value movedim(const Value& x, Axes from, Axes to) {
  if (x.rank() == 0) return x;
  Axes order(static_cast<size_t>(x.rank()), -1);
  std::vector<bool> moved(order.size(), false);
  for (size_t i = 0; i < from.size(); ++i) {
    order[static_cast<size_t>(x.axis(to[i]))] = x.axis(from[i]);
    moved[static_cast<size_t>(x.axis(from[i]))] = true;
  }
  Axis next = 0;
  for (Axis& a : order) {
    if (a >= 0) continue;
    while (moved[static_cast<size_t>(next)]) ++next;
    a = next++;
  }
  return permute(x, order);
}

Value repeat(Value x, const Dims& times) {
  while (x.rank() < static_cast<int64_t>(times.size())) x = unsqueeze(x, 0);
  Dims wide, merged;
  for (size_t i = 0; i < times.size(); ++i) {
    wide.push_back(times[i]);
    wide.push_back(x.dims()[i]);
    merged.push_back(times[i] * x.dims()[i]);
  }
  Value y = x;
  for (size_t i = 0; i < times.size(); ++i) y = unsqueeze(y, static_cast<Axis>(2 * i));
  return reshape(expand(y, wide), merged);
}

Value repeat_interleave(Value x, const Dim& n, std::optional<int64_t> dim) {
  if (!dim) {
    x = reshape(x, {Dim(-1)});
    dim = 0;
  }
  Axis a = x.axis(*dim);
  Dims wide = x.dims(), merged = x.dims();
  wide.insert(wide.begin() + a + 1, n);
  merged[static_cast<size_t>(a)] *= n;
  return reshape(expand(unsqueeze(x, a + 1), wide), merged);
}

// Number i as often as repeats[i] says, one after another: [total]. Without a size it is read from data.
Value repeated_numbers(const Value& repeats, const std::optional<Dim>& size) {
  if (repeats.rank() != 1) fail(Code::unsupported, "repeat_interleave by a tensor of rank {}", repeats.rank());
  if (repeats.dtype() != DType::i64 && repeats.dtype() != DType::i32) fail(Code::unsupported, "repeat_interleave by {}", name_of(repeats.dtype()));
  const Value ends = scan("sum", cast(repeats, DType::i64), 0);
  const Dim total = size ? *size : read_size(sum(repeats, {}), std::nullopt);
  return segment_of_each(ends, total);
}

Value repeat_interleave(Value x, Value repeats, std::optional<int64_t> dim, const std::optional<Dim>& size) {
  if (!dim) x = reshape(x, {Dim(-1)});
  x = at_least_1d(x);
  const Axis axis = x.axis(dim.value_or(0));
  if (repeats.numel() == Dim(1)) repeats = expand(reshape(repeats, {Dim(1)}), {x.dim(axis)});
  require(x.graph(), repeats.dim(0), ir::Check::equal, x.dim(axis), "each element of the axis is repeated by a number of its own");
  return gather(x, {axis}, {repeated_numbers(repeats, size)}, axis, false);
}

Value block_diagonal(const std::vector<Value>& given) {
  std::vector<Value> blocks;
  Dim width = 0, before = 0;
  for (const Value& x : given) {
    if (x.rank() > 2) fail(Code::invalid_input, "block_diag of rank {}", x.rank());
    blocks.push_back(x.rank() == 2 ? x : reshape(x, {Dim(1), x.numel()}));
    width += blocks.back().dim(1);
  }
  for (Value& block : blocks) {
    const Dim own = block.dim(1), after = width - before - own;
    block = pad(block, {0, before}, {0, after}, 0);
    before += own;
  }
  return concat(std::move(blocks), 0);
}

std::vector<Value> broadcast_tensors(const std::vector<Value>& given) {
  std::vector<Dims> shapes;
  for (const Value& x : given) shapes.push_back(x.dims());
  const Dims dims = require_broadcast(given[0].graph(), shapes);
  std::vector<Value> out;
  for (const Value& x : given) out.push_back(expand(x, dims));
  return out;
}

// `indexing`: "ij", or "xy", which exchanges the first two axes.
std::vector<Value> meshgrid(const std::vector<Value>& given, const std::string& indexing) {
  Dims dims;
  for (const Value& x : given) dims.push_back(x.numel());
  std::vector<Value> out;
  for (size_t i = 0; i < given.size(); ++i) {
    Dims line(given.size(), Dim(1));
    line[i] = dims[i];
    const Value one = expand(reshape(given[i], line), dims);
    out.push_back(indexing == "xy" && given.size() > 1 ? transpose(one, 0, 1) : one);
  }
  return out;
}

Value rot90(const Value& x, int64_t k, const Axes& dims) {
  if (dims.size() != 2) fail(Code::invalid_input, "rot90 of {} axes", dims.size());
  switch (((k % 4) + 4) % 4) {
    case 1: return transpose(flip(x, {dims[1]}), dims[0], dims[1]);
    case 2: return flip(x, dims);
    case 3: return transpose(flip(x, {dims[0]}), dims[0], dims[1]);
    default: return x;
  }
}

// How many elements of an axis come from its end to its front.
Dim rolled_to_front(const Value& x, const Dim& size, const Dim& by) {
  // A mod by an unknown size is hard to simplify. A shift by at most the size needs none.
  const std::optional<int64_t> shift = by.constant();
  const bool within = shift && *shift != INT64_MIN && known_less(size, std::abs(*shift), x.graph().symbols) == Truth::no;
  return !within ? mod(by, max(size, 1)) : *shift > 0 ? Dim(*shift) : size - Dim(-*shift);
}

// Elements read at given places along some axes, [n] along each.
Value at_places(const Value& x, const std::map<Axis, Value>& places) {
  const Axis first = places.begin()->first, last = places.rbegin()->first;
  std::vector<int64_t> axes;
  std::vector<Value> indices;
  for (Axis axis = first; axis <= last; ++axis) {
    const auto found = places.find(axis);
    const Value place = found == places.end() ? iota(x.graph(), x.dim(axis)) : found->second;
    Dims line(static_cast<size_t>(last - axis) + 1, Dim(1));
    line[0] = place.dim(0);
    axes.push_back(axis);
    indices.push_back(reshape(place, line));
  }
  return gather(x, axes, indices, first, false);
}

// Along the last axis alone two parts change places. Else elements are read from where they are: that fuses with what is done with them.
Value roll(Value x, const Dims& shifts, const Axes& dims) {
  if (dims.empty()) return reshape(roll(reshape(x, {Dim(-1)}), shifts, {0}), x.dims());
  std::map<Axis, Dim> rows;
  for (size_t i = 0; i < dims.size(); ++i) {
    const Axis axis = x.axis(dims[i]);
    if (!(x.dim(axis) == Dim(0) || x.dim(axis) == Dim(1))) rows[axis] += shifts[i];
  }
  if (rows.empty()) return x;
  if (std::count(x.dims().begin(), x.dims().end(), Dim(1)) > 0) {  // axes of one element need no index
    Dims kept, by;
    Axes axes;
    for (Axis axis = 0; axis < x.rank(); ++axis) {
      if (x.dim(axis) == Dim(1)) continue;
      if (const auto found = rows.find(axis); found != rows.end()) axes.push_back(static_cast<Axis>(kept.size())), by.push_back(found->second);
      kept.push_back(x.dim(axis));
    }
    return reshape(roll(reshape(x, kept), by, axes), x.dims());
  }
  if (rows.begin()->first + 1 == x.rank()) {
    const Axis axis = rows.begin()->first;
    const Dim size = x.dim(axis), front = rolled_to_front(x, size, rows.begin()->second);
    const std::vector<Value> parts = parts_of(x, axis, {size - front, front});
    return concat({parts[1], parts[0]}, axis);
  }
  std::map<Axis, Value> places;
  for (const auto& [axis, by] : rows) {
    const Dim size = x.dim(axis), front = rolled_to_front(x, size, by);
    const Value place = iota(x.graph(), size);
    places.emplace(axis, select(place < Operand(front), place + Operand(size - front), place - Operand(front)));
  }
  return at_places(x, places);
}

Value diagonal(const Value& x, int64_t offset, int64_t dim1, int64_t dim2) {
  if (x.rank() < 2) fail(Code::invalid_input, "diagonal: rank {} is below 2", x.rank());
  auto a = static_cast<size_t>(x.axis(dim1)), b = static_cast<size_t>(x.axis(dim2));
  Dim rows = x.dims()[a], columns = x.dims()[b];
  Dim first_row = offset < 0 ? -offset : 0, first_column = offset > 0 ? offset : 0;
  Dim n = min(rows - first_row, columns - first_column);
  if (known_less(n, 0, x.graph().symbols) != Truth::no) n = max(n, 0);
  AffineMap map;
  for (size_t i = 0; i < x.dims().size(); ++i) {
    if (i == a || i == b) {
      map.axes.push_back({i == a ? first_row : first_column, {}});
    } else {
      map.axes.push_back({0, {{static_cast<uint32_t>(map.dims.size()), 1}}});
      map.dims.push_back(x.dims()[i]);
    }
  }
  map.axes[a].terms = map.axes[b].terms = {{static_cast<uint32_t>(map.dims.size()), 1}};
  map.dims.push_back(n);
  return view(x, std::move(map));
}

Value unfold(Value x, int64_t dim, int64_t size, int64_t step) {
  if (x.rank() == 0) {  // a window on a single element
    if (size > 1) fail(Code::invalid_input, "unfold: size {} of a 0-d tensor", size);
    return size == 1 ? reshape(x, {Dim(1)}) : full(x.graph(), {Dim(0)}, 0, x.dtype());
  }
  auto a = static_cast<size_t>(x.axis(dim));
  require(x.graph(), size, ir::Check::less_equal, x.dims()[a], "the unfolded axis has room for a window");
  AffineMap map = permute_map(x.dims(), [&] {
    Axes order;
    for (Axis i = 0; i < x.rank(); ++i) order.push_back(i);
    return order;
  }());
  map.dims[a] = floordiv(x.dims()[a] - Dim(size), step) + Dim(1);
  map.axes[a].terms[0].coefficient = step;
  map.axes[a].terms.push_back({static_cast<uint32_t>(map.dims.size()), 1});
  map.dims.push_back(size);
  return view(x, std::move(map));
}

// A view of the memory in which x's elements are row-major, from its first element on. The importer counts so, whatever x's real strides are.
Value as_strided(const Value& x, const Dims& sizes, const Dims& strides, const std::optional<Dim>& offset) {
  if (sizes.size() != strides.size()) fail(Code::invalid_input, "as_strided: {} sizes and {} strides", sizes.size(), strides.size());
  Graph& g = x.graph();
  const StridedLayout part{sizes, strides, offset.value_or(0)};
  if (auto map = map_between(row_major(x.dims()), part, g.symbols)) return view(x, std::move(*map));
  Dim end = part.offset + Dim(1);
  for (size_t i = 0; i < sizes.size(); ++i) end += strides[i] * (sizes[i] - Dim(1));
  auto not_negative = [&](const Dim& d) {
    if (known_less(d, 0, g.symbols) == Truth::yes) fail(Code::unsupported, "as_strided with a negative stride or offset");
    require(g, 0, ir::Check::less_equal, d, "strides and offset of as_strided are not negative");
  };
  not_negative(part.offset);
  std::for_each(strides.begin(), strides.end(), not_negative);
  end = min(product(sizes), 1) * end;
  if (known_less(x.numel(), end, g.symbols) == Truth::yes) fail(Code::unsupported, "as_strided reads memory after the last element of its operand");
  require(g, end, ir::Check::less_equal, x.numel(), "as_strided reads elements of its operand");
  const Value flat = reshape(x, {x.numel()});
  if (std::all_of(strides.begin(), strides.end(), [](const Dim& s) { return s.is_constant(); })) {
    AffineMap map{sizes, {{part.offset, {}}}, std::nullopt};
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (!(sizes[i] == Dim(1)) && strides[i].value() != 0) map.axes[0].terms.push_back({static_cast<uint32_t>(i), strides[i].value()});
    }
    return view(flat, std::move(map));
  }
  Value at = full(g, sizes, part.offset, DType::i64);
  for (size_t i = 0; i < sizes.size(); ++i) at = at + index(g, sizes, static_cast<Axis>(i)) * strides[i];
  return gather(flat, {0}, {at}, 0, false);
}

// The signed integer of a size in bytes; one byte is unsigned.
DType integer_of_size(size_t bytes) { return bytes == 1 ? DType::u8 : bytes == 2 ? DType::i16 : bytes == 4 ? DType::i32 : DType::i64; }

// Windows, whose elements are the last axis of x, add up along an axis of the given sizes: the reverse of `unfold`.
Value sum_of_windows(Value x, const Dims& sizes, int64_t dim, int64_t size, int64_t step) {
  if (sizes.empty()) return reshape(x, {});
  const Axis a = x.axis(dim < 0 ? dim - 1 : dim);
  Dims whole = sizes;  // torch's istft gives one window for all signals
  whole[static_cast<size_t>(a)] = x.dim(a);
  whole.push_back(x.dim(-1));
  x = expand(x, whole);
  Axes order;
  for (Axis i = 0; i < x.rank() - 1; ++i) {
    order.push_back(i);
    if (i == a) order.push_back(x.rank() - 1);
  }
  Graph& g = x.graph();
  const Value place = ir::index(g, {x.dim(a), Dim(1)}, 0) * step + ir::index(g, {Dim(1), Dim(size)}, 1);
  const Value wide = permute(widened(x), order);
  return cast(scatter(full(g, sizes, 0, wide.dtype()), {a}, {place}, a, false, wide, "add"), x.dtype());
}

// Windows of an image as columns: [N, C, H, W] becomes [N, C * kernel, windows].
Value columns(Value x, const Axes& kernel, const Axes& dilation, const Axes& padding, const Axes& stride) {
  if (x.rank() == 3) {
    Value y = columns(unsqueeze(x, 0), kernel, dilation, padding, stride);
    return reshape(y, {y.dim(1), y.dim(2)});
  }
  if (x.rank() != 4 || kernel.size() != 2 || dilation.size() != 2 || padding.size() != 2 || stride.size() != 2) fail(Code::invalid_input, "im2col: rank {}", x.rank());
  const Dims around{0, 0, padding[0], padding[1]};
  x = pad(x, around, around, 0);
  AffineMap map;
  map.dims = {x.dim(0), x.dim(1), kernel[0], kernel[1]};
  map.axes = {{0, {{0, 1}}}, {0, {{1, 1}}}};
  for (uint32_t k = 0; k < 2; ++k) {
    map.dims.push_back(floordiv(x.dims()[2 + k] - Dim(dilation[k] * (kernel[k] - 1) + 1), stride[k]) + Dim(1));
    map.axes.push_back({0, {{2 + k, dilation[k]}, {4 + k, stride[k]}}});
  }
  const Dims d = map.dims;
  return reshape(view(x, std::move(map)), {d[0], d[1] * Dim(kernel[0] * kernel[1]), d[4] * d[5]});
}

// Columns [N, C * kernel, windows] add up to an image: the reverse of `columns`.
Value image_of_columns(Value x, const Dims& size, const Axes& kernel, const Axes& dilation, const Axes& padding, const Axes& stride) {
  if (x.rank() == 2) return squeeze(image_of_columns(unsqueeze(x, 0), size, kernel, dilation, padding, stride), 0);
  const bool two_axes = size.size() == 2 && kernel.size() == 2 && dilation.size() == 2 && padding.size() == 2 && stride.size() == 2;
  if (x.rank() != 3 || !two_axes) fail(Code::invalid_input, "col2im: rank {}", x.rank());
  Graph& g = x.graph();
  Dims counts, whole;
  for (size_t i = 0; i < 2; ++i) {
    counts.push_back(floordiv(size[i] + Dim(2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1), stride[i]) + Dim(1));
    whole.push_back(size[i] + Dim(2 * padding[i]));
  }
  const Dim channels = floordiv(x.dim(1), kernel[0] * kernel[1]);
  require(g, x.dim(2), ir::Check::equal, product(counts), "col2im has a column for each window");
  const Value split = reshape(x, {x.dim(0), channels, Dim(kernel[0]), Dim(kernel[1]), counts[0], counts[1]});
  const bool disjoint = kernel == stride && dilation == Axes{1, 1} && padding == Axes{0, 0};
  if (disjoint && counts[0] * Dim(kernel[0]) == size[0] && counts[1] * Dim(kernel[1]) == size[1]) {  // each element once
    return reshape(permute(split, {0, 1, 4, 2, 5, 3}), {x.dim(0), channels, size[0], size[1]});
  }
  std::vector<Value> places;
  for (size_t i = 0; i < 2; ++i) {
    Dims along_kernel(4, Dim(1)), along_windows(4, Dim(1));
    along_kernel[i] = kernel[i];
    along_windows[2 + i] = counts[i];
    places.push_back(ir::index(g, along_kernel, static_cast<Axis>(i)) * dilation[i] + ir::index(g, along_windows, static_cast<Axis>(2 + i)) * stride[i]);
  }
  const Value wide = widened(split);
  Value y = scatter(full(g, {x.dim(0), channels, whole[0], whole[1]}, 0, wide.dtype()), {2, 3}, places, 2, false, wide, "add");
  for (Axis i = 0; i < 2; ++i) y = view(y, slice_map(y.dims(), 2 + i, padding[static_cast<size_t>(i)], size[static_cast<size_t>(i)], 1));
  return cast(y, x.dtype());
}

Value constant_pad(Value x, const Dims& amounts, const Scalar& value) {
  Dims before(x.dims().size(), Dim(0)), after = before;
  if (amounts.size() % 2 != 0 || amounts.size() / 2 > x.dims().size()) fail(Code::invalid_input, "pad: {} amounts for rank {}", amounts.size(), x.rank());
  for (size_t i = 0; i < amounts.size() / 2; ++i) {
    before[x.dims().size() - 1 - i] = amounts[2 * i];
    after[x.dims().size() - 1 - i] = amounts[2 * i + 1];
  }
  return pad(x, before, after, value);
}

// Each element is read from where it is in x. Negative amounts crop.
Value mirrored_pad(Value x, const Dims& amounts, const std::string& mode) {
  std::map<Axis, Value> places;
  const auto& symbols = x.graph().symbols;
  auto cropped = [&](const Dim& amount) { return known_less(amount, 0, symbols) == Truth::no ? Dim(0) : max(-amount, 0); };
  for (size_t i = 0; i < amounts.size() / 2; ++i) {
    const Axis axis = x.rank() - 1 - static_cast<Axis>(i);
    Dim before = amounts[2 * i], after = amounts[2 * i + 1];
    const Dim front = cropped(before), back = cropped(after);
    const bool only_crops = known_less(0, before, symbols) == Truth::no && known_less(0, after, symbols) == Truth::no;
    if ((only_crops || mode == "circular") && !(front == 0 && back == 0)) {  // "circular" wraps around what is left
      x = view(x, slice_map(x.dims(), axis, front, x.dim(axis) - front - back, 1));
      before += front;
      after += back;
    }
    if (only_crops) continue;
    const Dim size = x.dim(axis);
    const Dim lowest = mode == "reflect" ? max(before, after) + Dim(1) : mode == "circular" ? max(before, after) : Dim(1);
    if (known_less(size, lowest, symbols) == Truth::yes) fail(Code::unsupported, "pad: mode \"{}\" by more than there is", mode);
    require(x.graph(), lowest, ir::Check::less_equal, size, "the padded axis is long enough for the padding");
    const Value here = iota(x.graph(), size + before + after);
    const Operand last = size - Dim(1);
    if (mode == "reflect") {
      places.emplace(axis, map(Op::sub, {last, abs(abs(here - before) - last)}));
    } else if (mode == "replicate") {
      places.emplace(axis, minimum(maximum(here - before, 0), last));
    } else {
      places.emplace(axis, map(Op::mod, {here + Operand(size - before), size}));
    }
  }
  return places.empty() ? x : at_places(x, places);
}

Value as_type(const Value& x, std::optional<DType> t) { return t ? cast(x, *t) : x; }

Value written(const Value& base, AffineMap map, const Value& value) { return update(base, map, expand(cast(value, base.dtype()), map.dims)); }

AffineMap slice_of(const Value& x, int64_t dim, std::optional<Dim> start, std::optional<Dim> end, int64_t step) {
  Value s = slice(x, dim, start, end, step);
  if (s.id() == x.id()) return slice_map(x.dims(), x.axis(dim), 0, x.dim(dim), 1);
  return x.graph().producer(s.id()).attributes.map("map");
}

const Definition shape_rows[] = {
    {"{view,view_copy}(Tensor self, SymInt[] size)", [](Value x, Dims d) { return reshape(x, d); }},
    {"{view.dtype,view_copy.dtype}(Tensor self, ScalarType dtype)", [](Value x, DType t) { return of_same_bytes(x, t); }},
    {"_unsafe_view(Tensor self, SymInt[] size)", [](Value x, Dims d) { return reshape(x, d); }},
    {"reshape(Tensor self, SymInt[] shape)", [](Value x, Dims d) { return reshape(x, d); }},
    {"_reshape_copy(Tensor self, SymInt[] size)", [](Value x, Dims d) { return reshape(x, d); }},
    {"view_as(Tensor self, Tensor other)", Types::each, [](Value x, Value o) { return reshape(x, o.dims()); }},
    {"reshape_as(Tensor self, Tensor other)", Types::each, [](Value x, Value o) { return reshape(x, o.dims()); }},
    {"flatten.using_ints(Tensor self, int start_dim=0, int end_dim=-1)", [](Value x, int64_t a, int64_t b) { return flatten(x, a, b); }},
    {"unflatten.int(Tensor self, int dim, SymInt[] sizes)",
     [](Value x, int64_t dim, Dims sizes) {
       auto a = static_cast<size_t>(x.axis(dim));
       Dim known = 1;
       for (const Dim& s : sizes) known *= s == Dim(-1) ? Dim(1) : s;
       for (Dim& s : sizes) if (s == Dim(-1)) s = floordiv(x.dims()[a], known);
       Dims d = x.dims();
       d.erase(d.begin() + static_cast<int64_t>(a));
       d.insert(d.begin() + static_cast<int64_t>(a), sizes.begin(), sizes.end());
       return reshape(x, d);
     }},
    {"{permute,permute_copy}(Tensor self, int[] dims)", [](Value x, Axes order) { return permute(x, order); }},
    {"{transpose,transpose_copy}.int(Tensor self, int dim0, int dim1)", [](Value x, int64_t a, int64_t b) { return transpose(x, a, b); }},
    {"swapaxes(Tensor self, int axis0, int axis1)", [](Value x, int64_t a, int64_t b) { return transpose(x, a, b); }},
    {"swapdims(Tensor self, int dim0, int dim1)", [](Value x, int64_t a, int64_t b) { return transpose(x, a, b); }},
    {"{t,t_copy}(Tensor self)", [](Value x) { return x.rank() < 2 ? x : transpose(x, 0, 1); }},
    {"numpy_T(Tensor self)", [](Value x) { Axes o; for (Axis i = x.rank(); i-- > 0;) o.push_back(i); return permute(x, o); }},
    {"adjoint(Tensor self)", [](Value x) { return x.rank() == 0 ? x : transpose(x, -2, -1); }},
    {"mH(Tensor self)", [](Value x) { return x.rank() == 0 ? x : transpose(x, -2, -1); }},
    {"mT(Tensor self)", [](Value x) { return x.rank() == 0 ? x : transpose(x, -2, -1); }},
    {"{moveaxis,movedim}.int(Tensor self, int source, int destination)", [](Value x, int64_t a, int64_t b) { return movedim(x, {a}, {b}); }},
    {"{moveaxis,movedim}.intlist(Tensor self, int[] source, int[] destination)", [](Value x, Axes a, Axes b) { return movedim(x, a, b); }},
    {"{expand,expand_copy}(Tensor self, SymInt[] size)", [](Value x, Dims d) { return expand(x, d); }},
    {"expand_as(Tensor self, Tensor other)", Types::each, [](Value x, Value o) { return expand(x, o.dims()); }},
    {"broadcast_to(Tensor self, SymInt[] size)", [](Value x, Dims d) { return expand(x, d); }},
    {"{unsqueeze,unsqueeze_copy}(Tensor self, int dim)", [](Value x, int64_t d) { return unsqueeze(x, d); }},
    {"{squeeze,squeeze_copy}(Tensor self)", [](Value x) { Axes a; for (Axis i = 0; i < x.rank(); ++i) a.push_back(i); return squeeze_all(x, a); }},
    {"{squeeze,squeeze_copy}.dim(Tensor self, int dim)", [](Value x, int64_t d) { return squeeze(x, d); }},
    {"{squeeze,squeeze_copy}.dims(Tensor self, int[] dim)", [](Value x, Axes d) { return squeeze_all(x, d); }},
    {"{slice,slice_copy}.Tensor(Tensor self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1)",
     [](Value x, int64_t dim, std::optional<Dim> start, std::optional<Dim> end, int64_t step) { return slice(x, dim, start, end, step); }},
    {"{select,select_copy}.int(Tensor self, int dim, SymInt index)", [](Value x, int64_t d, Dim i) { return take(x, d, i); }},
    {"{narrow,narrow_copy}(Tensor self, int dim, SymInt start, SymInt length)", [](Value x, int64_t d, Dim start, Dim length) { return narrow(x, d, start, length); }},
    {"narrow.Tensor(Tensor self, int dim, Tensor start, SymInt length)", Types::each,
     [](Value x, int64_t d, Value start, Dim length) {
       Axis axis = x.axis(d);
       return gather(x, {axis}, {iota(x.graph(), length) + cast(start, DType::i64)}, axis, true);
     }},
    {"split.Tensor(Tensor self, SymInt split_size, int dim=0)", [](Recorded r, Value x, Dim size, int64_t dim) { return split(r, x, size, dim); }},
    {"split.sizes(Tensor self, SymInt[] split_size, int dim=0)", [](Value x, Dims sizes, int64_t dim) { return parts_of(at_least_1d(x), dim, sizes); }},
    {"{split_with_sizes,split_with_sizes_copy,unsafe_split_with_sizes}(Tensor self, SymInt[] split_sizes, int dim=0)", [](Value x, Dims sizes, int64_t dim) { return parts_of(at_least_1d(x), dim, sizes); }},
    {"{unsafe_split,split_copy}.Tensor(Tensor self, SymInt split_size, int dim=0)", [](Recorded r, Value x, Dim size, int64_t dim) { return split(r, x, size, dim); }},
    {"chunk(Tensor self, int chunks, int dim=0)", [](Recorded r, Value x, int64_t n, int64_t dim) { return chunk(r, x, n, dim); }},
    {"unsafe_chunk(Tensor self, int chunks, int dim=0)", [](Recorded r, Value x, int64_t n, int64_t dim) { return chunk(r, x, n, dim); }},
    {"{unbind,unbind_copy}.int(Tensor self, int dim=0)", [](Recorded r, Value x, int64_t dim) { return unbind(r, x, dim); }},
    {"cat(Tensor[] tensors, int dim=0)", Types::each, [](std::vector<Value> parts, int64_t dim) { return concat(parts, dim); }},
    {"{concat,concatenate}(Tensor[] tensors, int dim=0)", Types::each, [](std::vector<Value> parts, int64_t dim) { return concat(parts, dim); }},
    {"{stack,_stack}(Tensor[] tensors, int dim=0)", Types::each, [](std::vector<Value> parts, int64_t dim) { return stack(parts, dim); }},
    {"diff(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None)", Types::each,
     [](Value x, int64_t n, int64_t dim, std::optional<Value> before, std::optional<Value> after) {
       if (n == 0) return x;  // as eager, which then leaves prepend and append out too
       std::vector<Value> parts;
       if (before) parts.push_back(*before);
       parts.push_back(x);
       if (after) parts.push_back(*after);
       if (parts.size() > 1) x = concat(parts, dim);
       for (int64_t i = 0; i < n; ++i) {
         Value next = slice(x, dim, Dim(1), std::nullopt, 1), last = slice(x, dim, Dim(0), x.dim(dim) - Dim(1), 1);
         x = x.dtype() == DType::b8 ? next ^ last : next - last;
       }
       return x;
     }},
    {"flip(Tensor self, int[] dims)", [](Value x, Axes d) { return flip(x, d); }},
    {"roll(Tensor self, SymInt[1] shifts, int[1] dims=[])", [](Value x, Dims shifts, Axes dims) { return roll(x, shifts, dims); }},
    {"repeat(Tensor self, SymInt[] repeats)", [](Value x, Dims times) { return repeat(x, times); }},
    {"tile(Tensor self, SymInt[] dims)", [](Value x, Dims times) { while (static_cast<int64_t>(times.size()) < x.rank()) times.insert(times.begin(), Dim(1)); return repeat(x, times); }},
    {"repeat_interleave.self_int(Tensor self, SymInt repeats, int? dim=None, *, SymInt? output_size=None)",
     [](Value x, Dim n, std::optional<int64_t> dim, std::optional<Dim>) { return repeat_interleave(x, n, dim); }},
    {"repeat_interleave.Tensor(Tensor repeats, *, SymInt? output_size=None)", [](Value repeats, std::optional<Dim> size) { return repeated_numbers(repeats, size); }},
    {"repeat_interleave.self_Tensor(Tensor self, Tensor repeats, int? dim=None, *, SymInt? output_size=None)", Types::each,
     [](Value x, Value repeats, std::optional<int64_t> dim, std::optional<Dim> size) { return repeat_interleave(x, repeats, dim, size); }},
    {"block_diag(Tensor[] tensors)", Types::each, [](std::vector<Value> given) { return block_diagonal(given); }},
    {"broadcast_tensors(Tensor[] tensors)", Types::each, [](std::vector<Value> given) { return broadcast_tensors(given); }},
    {"meshgrid(Tensor[] tensors)", Types::each, [](std::vector<Value> given) { return meshgrid(given, "ij"); }},
    {"meshgrid.indexing(Tensor[] tensors, *, str indexing)", Types::each, [](std::vector<Value> given, std::string indexing) { return meshgrid(given, indexing); }},
    {"rot90(Tensor self, int k=1, int[] dims=[0, 1])", [](Value x, int64_t k, Axes dims) { return rot90(x, k, dims); }},
    {"fliplr(Tensor self)", [](Value x) { return flip(x, {1}); }},
    {"flipud(Tensor self)", [](Value x) { return flip(x, {0}); }},
    {"hstack(Tensor[] tensors)", Types::each, [](std::vector<Value> parts) { for (Value& p : parts) p = at_least_1d(p); return concat(parts, parts[0].rank() == 1 ? 0 : 1); }},
    {"dstack(Tensor[] tensors)", Types::each,
     [](std::vector<Value> parts) {
       for (Value& p : parts) {
         if (p.rank() < 2) p = unsqueeze(at_least_1d(p), 0);
         if (p.rank() == 2) p = unsqueeze(p, 2);
       }
       return concat(parts, 2);
     }},
    {"column_stack(Tensor[] tensors)", Types::each, [](std::vector<Value> parts) { for (Value& p : parts) p = p.rank() < 2 ? unsqueeze(at_least_1d(p), 1) : p; return concat(parts, 1); }},
    {"{vstack,row_stack}(Tensor[] tensors)", Types::each, [](std::vector<Value> parts) { for (Value& p : parts) p = p.rank() < 2 ? unsqueeze(at_least_1d(p), 0) : p; return concat(parts, 0); }},
    {"trace(Tensor self)", Types::numbers, [](Value x) { return sum(diagonal(x, 0, 0, 1), {0}); }},
    {"{diagonal,diagonal_copy}(Tensor self, int offset=0, int dim1=0, int dim2=1)", [](Value x, int64_t o, int64_t a, int64_t b) { return diagonal(x, o, a, b); }},
    {"linalg_diagonal(Tensor A, *, int offset=0, int dim1=-2, int dim2=-1)", [](Value x, int64_t o, int64_t a, int64_t b) { return diagonal(x, o, a, b); }},
    {"{unfold,unfold_copy}(Tensor self, int dimension, int size, int step)", [](Value x, int64_t d, int64_t size, int64_t step) { return unfold(x, d, size, step); }},
    {"{as_strided,as_strided_copy}(Tensor self, SymInt[] size, SymInt[] stride, SymInt? storage_offset=None)",
     [](Value x, Dims sizes, Dims strides, std::optional<Dim> offset) { return as_strided(x, sizes, strides, offset); }},
    {"unfold_backward(Tensor grad_in, SymInt[] input_sizes, int dim, int size, int step)",
     [](Value x, Dims sizes, int64_t dim, int64_t size, int64_t step) { return sum_of_windows(x, sizes, dim, size, step); }},
    {"im2col(Tensor self, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride)", [](Value x, Axes kernel, Axes dilation, Axes padding, Axes stride) { return columns(x, kernel, dilation, padding, stride); }},
    {"col2im(Tensor self, SymInt[2] output_size, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride)",
     [](Value x, Dims size, Axes kernel, Axes dilation, Axes padding, Axes stride) { return image_of_columns(x, size, kernel, dilation, padding, stride); }},
    {"_pad_circular(Tensor self, SymInt[] pad)", [](Value x, Dims amounts) { return mirrored_pad(x, amounts, "circular"); }},
    {"constant_pad_nd(Tensor self, SymInt[] pad, Scalar value=0)", [](Value x, Dims amounts, Scalar v) { return constant_pad(x, amounts, v); }},
    {"pad(Tensor self, SymInt[] pad, str mode=\"constant\", float? value=None)",
     [](Value x, Dims amounts, std::string mode, std::optional<double> v) {
       if (mode == "constant") return constant_pad(x, amounts, v.value_or(0.0));
       if (mode == "reflect" || mode == "replicate" || mode == "circular") return mirrored_pad(x, amounts, mode);
       fail(Code::unsupported, "pad: mode \"{}\"", mode);
     }},
    {"reflection_pad1d(Tensor self, SymInt[2] padding)", [](Value x, Dims amounts) { return mirrored_pad(x, amounts, "reflect"); }},
    {"reflection_pad2d(Tensor self, SymInt[4] padding)", [](Value x, Dims amounts) { return mirrored_pad(x, amounts, "reflect"); }},
    {"reflection_pad3d(Tensor self, SymInt[6] padding)", [](Value x, Dims amounts) { return mirrored_pad(x, amounts, "reflect"); }},
    {"replication_pad1d(Tensor self, SymInt[2] padding)", [](Value x, Dims amounts) { return mirrored_pad(x, amounts, "replicate"); }},
    {"replication_pad2d(Tensor self, SymInt[4] padding)", [](Value x, Dims amounts) { return mirrored_pad(x, amounts, "replicate"); }},
    {"replication_pad3d(Tensor self, SymInt[6] padding)", [](Value x, Dims amounts) { return mirrored_pad(x, amounts, "replicate"); }},
    {"clone(Tensor self)", [](Value x) { return x; }},
    {"contiguous(Tensor self)", [](Value x) { return x; }},
    {"{alias,alias_copy}(Tensor self)", [](Value x) { return x; }},
    {"{detach,detach_copy}(Tensor self)", [](Value x) { return x; }},
    {"detach_(Tensor self)", [](Value x) { return x; }},
    {"lift_fresh_copy(Tensor self)", [](Value x) { return x; }},
    {"lift_fresh(Tensor self)", [](Value x) { return x; }},
    {"_to_copy(Tensor self, *, ScalarType? dtype=None)", [](Value x, std::optional<DType> t) { return as_type(x, t); }},
    {"to.dtype(Tensor self, ScalarType dtype)", [](Value x, DType t) { return cast(x, t); }},
    {"to.dtype_layout(Tensor self, *, ScalarType? dtype=None)", [](Value x, std::optional<DType> t) { return as_type(x, t); }},
    {"prims::broadcast_in_dim(Tensor a, SymInt[] shape, int[] broadcast_dimensions)",
     [](Value x, Dims shape, Axes kept) {
       for (Axis i = 0; i < static_cast<Axis>(shape.size()); ++i) {
         if (std::find(kept.begin(), kept.end(), i) == kept.end()) x = unsqueeze(x, i);
       }
       return expand(x, shape);
     }},
    {"prims::convert_element_type(Tensor a, ScalarType dtype)", [](Value x, DType t) { return cast(x, t); }},
    {"to.device(Tensor self, Device device, ScalarType dtype)", [](Value x, std::optional<std::string>, DType t) { return cast(x, t); }},
    {"to.other(Tensor self, Tensor other)", Types::each, [](Value x, Value o) { return cast(x, o.dtype()); }},
    {"type_as(Tensor self, Tensor other)", Types::each, [](Value x, Value o) { return cast(x, o.dtype()); }},
    {"_assert_tensor_metadata(Tensor a, SymInt[]? size=None, SymInt[]? stride=None, ScalarType? dtype=None)", [](Value) {}},
    {"slice_scatter(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1)", Types::each,
     [](Value x, Value v, int64_t dim, std::optional<Dim> start, std::optional<Dim> end, int64_t step) { return written(x, slice_of(x, dim, start, end, step), v); }},
    {"select_scatter(Tensor self, Tensor src, int dim, SymInt index)", Types::each,
     [](Value x, Value v, int64_t dim, Dim i) { return written(x, x.graph().producer(take(x, dim, i).id()).attributes.map("map"), v); }},
    {"diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1)", Types::each,
     [](Value x, Value v, int64_t offset, int64_t dim1, int64_t dim2) { return written(x, x.graph().producer(diagonal(x, offset, dim1, dim2).id()).attributes.map("map"), v); }},
    {"diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1)",
     [](Value x, int64_t offset, int64_t dim1, int64_t dim2) {
       const int64_t rank = x.rank() + 1;
       const int64_t a = dim1 < 0 ? dim1 + rank : dim1, b = dim2 < 0 ? dim2 + rank : dim2;
       const Dim side = x.dim(-1) + Dim(std::abs(offset));
       Dims dims(x.dims().begin(), x.dims().end() - 1);
       dims.insert(dims.begin() + std::min(a, b), side);
       dims.insert(dims.begin() + std::max(a, b), side);
       Value zeros = full(x.graph(), dims, 0, x.dtype());
       return written(zeros, x.graph().producer(diagonal(zeros, offset, a, b).id()).attributes.map("map"), x);
     }},
    {"fill.Scalar(Tensor self, Scalar value)", [](Value x, Scalar v) { return full(x.graph(), x.dims(), v, x.dtype()); }},
    {"fill.Tensor(Tensor self, Tensor value)", Types::each, [](Value x, Value v) { return expand(cast(v, x.dtype()), x.dims()); }},
    {"zero(Tensor self)", [](Value x) { return full(x.graph(), x.dims(), 0, x.dtype()); }},
    {"copy(Tensor self, Tensor src)", Types::each, [](Value x, Value v) { return expand(cast(v, x.dtype()), x.dims()); }},
};

}  // namespace

Value of_same_bytes(const Value& x, DType to) {
  const DType from = x.dtype();
  if (size_of(from) == size_of(to)) return bitcast(x, to);
  if (x.rank() == 0) fail(Code::invalid_input, "view of a 0-d {} as {}, whose size is another", torch_name_of(from), torch_name_of(to));
  Graph& g = x.graph();
  const DType small = integer_of_size(std::min(size_of(from), size_of(to))), large = integer_of_size(std::max(size_of(from), size_of(to)));
  const auto parts = static_cast<int64_t>(size_of(large) / size_of(small)), bits = static_cast<int64_t>(8 * size_of(small));
  Dims dims = x.dims();
  if (size_of(from) > size_of(to)) {
    dims.back() *= parts;
    const Value shifts = cast(iota(g, parts) * bits, large);
    return bitcast(reshape(cast(map(Op::shift_right, {unsqueeze(bitcast(x, large), x.rank()), shifts}), small), dims), to);
  }
  require(g, mod(dims.back(), parts), ir::Check::equal, 0, "the last axis has whole elements of the new type");
  dims.back() = floordiv(dims.back(), parts);
  dims.push_back(parts);
  const Value split = reshape(bitcast(x, small), dims);
  Value whole;
  for (int64_t k = 0; k < parts; ++k) {
    const Value part = map(Op::bit_and, {cast(take(split, -1, k), large), Scalar((int64_t{1} << bits) - 1)});  // without the sign's copies
    const Value placed = map(Op::shift_left, {part, Scalar(k * bits)});
    whole = k == 0 ? placed : map(Op::bit_or, {whole, placed});
  }
  return bitcast(whole, to);
}

std::span<const Definition> shape_definitions() { return shape_rows; }

}  // namespace ingot::ops
