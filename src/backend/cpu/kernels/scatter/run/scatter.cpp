// Scatter on the CPU, in the order of the updates. One thread writes each part of the result, so results do not depend on timing.
#include <algorithm>
#include <cmath>

#include "backend/cpu/kernels/fused/run/block_ops.h"
#include "backend/cpu/kernels/scatter/run/tuning.h"
#include "kernels/run/elements.h"
#include "kernels/scatter/run/scatter_checks.h"

namespace ingot::kernels {

namespace {

bool is_half(ir::DType t) { return t == ir::DType::f16 || t == ir::DType::bf16; }

// True if halves are added up in floats that take the result's place until all are added: each element is rounded once, not with each update. Few updates are added where they go.
bool adds_in_floats(const ScatterArgs& args, const TensorRef& updates, const TensorRef& out) {
  return args.kind == ScatterArgs::Kind::add && is_half(out.dtype) &&
         static_cast<double>(numel(updates)) >= scatter_cpu_tuning::updates_of_element * static_cast<double>(numel(out));
}

size_t bytes_of_floats(const Call& call, const TensorRef& updates, const TensorRef& out) {
  return adds_in_floats(*static_cast<const ScatterArgs*>(call.constants), updates, out) ? static_cast<size_t>(numel(out)) * sizeof(float) : 0;
}

Resolved resolve(const Call& call) {
  check_scatter(call);
  return {bytes_of_floats(call, call.operands[0], call.operands.back()), nullptr};
}

Resolved resolve_along(const Call& call) {
  check_scatter_along(call);
  return {bytes_of_floats(call, call.operands[0], call.operands[2]), nullptr};
}

// The result as floats in scratch, row-major.
class Floats {
 public:
  Floats(const Call& call, const TensorRef& out) : call_(call), out_(out) {
    ref = {call.scratch, ir::DType::f32, out.rank, out.dims, strides_};
    for (int64_t d = out.rank, n = 1; d-- > 0; n *= out.dims[d]) strides_[d] = n;
  }
  Floats(const Floats&) = delete;
  void read() const {
    each_line([&](std::byte* there, int64_t stride, float* line, int64_t n) { block_ops().load(out_.dtype, line, there, stride, n); });
  }
  void write() const {
    each_line([&](std::byte* there, int64_t stride, float* line, int64_t n) { block_ops().store(out_.dtype, there, stride, {line, false}, n); });
  }
  TensorRef ref;

 private:
  template <class F>
  void each_line(F fn) const {
    const int64_t n = out_.rank == 0 ? 1 : out_.dims[out_.rank - 1], stride = out_.rank == 0 ? 1 : out_.strides[out_.rank - 1], lines = numel(out_) / std::max<int64_t>(n, 1);
    TensorRef outer = out_;
    outer.rank = std::max(out_.rank - 1, 0);
    const int64_t tasks = std::min<int64_t>(lines, call_.workers->count());
    call_.workers->run(tasks, [&](int64_t task, int) {
      for (int64_t line = lines * task / tasks; line < lines * (task + 1) / tasks; ++line) {
        int64_t at[max_rank], offset = 0;
        coordinates(line, outer, at);
        for (int d = 0; d < outer.rank; ++d) offset += at[d] * out_.strides[d];
        fn(element(out_, offset), stride, reinterpret_cast<float*>(call_.scratch) + line * n, n);
      }
    });
  }
  const Call& call_;
  const TensorRef& out_;
  int64_t strides_[max_rank] = {};
};

template <class Number>
Number combine(ScatterArgs::Kind kind, Number a, Number b) {
  using Kind = ScatterArgs::Kind;
  bool nan = false;
  if constexpr (std::is_same_v<Number, double>) nan = std::isnan(a) || std::isnan(b);
  switch (kind) {
    case Kind::set: return b;
    case Kind::min: return nan ? a + b : std::min(a, b);
    case Kind::max: return nan ? a + b : std::max(a, b);
    default: break;
  }
  if constexpr (std::is_same_v<Number, double>) {
    return kind == Kind::add ? a + b : a * b;
  } else {
    auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
    return static_cast<int64_t>(kind == Kind::add ? x + y : x * y);
  }
}

int64_t checked(int64_t index, int64_t size, bool wrap) {
  int64_t v = wrap && index < 0 ? index + size : index;
  if (v < 0 || v >= size) fail(Code::invalid_input, "index {} is out of range for an axis of size {}", index, size);
  return v;
}

// The updates are walked line by line along their last axis, with a constant stride per offset.
struct Line {
  int64_t length = 1;
  int64_t from_step = 0, to_step = 0;
  int64_t index_step[max_rank] = {};
};

int64_t index_of(const TensorRef& t, int64_t offset) { return PlainElement<int64_t>::get(element(t, offset)); }

// Indices of a line along one axis.
struct Index {
  const int64_t* values;
  int64_t step, extent, stride;  // from one to the next; of the axis
};

// places[i] = base[i] + the place of index i; base[i] = start + i * step where there is none.
void find_places(int64_t* places, const int64_t* base, int64_t start, int64_t step, const Index& index, bool wrap, int64_t n) {
  const int64_t* v = index.values;
  const int64_t more = wrap ? index.extent : 0;
  bool inside = true;
  if (!wrap && index.step == 1 && base == nullptr && step == 0 && block_ops().set_places(places, start, v, index.stride, index.extent, n)) return;
  auto each = [&](auto before) {
    for (int64_t i = 0; i < n; ++i) {
      const int64_t given = v[i * index.step], value = given + (more & (given >> 63));
      inside &= static_cast<uint64_t>(value) < static_cast<uint64_t>(index.extent);
      places[i] = before(i) + static_cast<int64_t>(static_cast<uint64_t>(value) * static_cast<uint64_t>(index.stride));
    }
  };
  base != nullptr ? each([=](int64_t i) { return base[i]; }) : each([=](int64_t i) { return start + i * step; });
  for (int64_t i = 0; !inside && i < n; ++i) checked(v[i * index.step], index.extent, wrap);
}

// How an element that is there and an update become one.
template <class M>
struct Set {
  using Memory = M;
  using Update = M;
  static void put(ScatterArgs::Kind, M* there, const M* update) { *there = *update; }
};
template <class M>
struct Add {  // floats, or integers that wrap
  using Memory = M;
  using Update = M;
  static void put(ScatterArgs::Kind, M* there, const M* update) { *there = static_cast<M>(*there + *update); }
  static void add_neighbours(M* to, const M* from, int64_t n) {
    typedef M Vector __attribute__((vector_size(16), aligned(alignof(M)), may_alias));
    constexpr auto lanes = static_cast<int64_t>(sizeof(Vector) / sizeof(M));
    int64_t i = 0;
    for (; i + lanes <= n; i += lanes) *reinterpret_cast<Vector*>(to + i) += *reinterpret_cast<const Vector*>(from + i);
    for (; i < n; ++i) to[i] = static_cast<M>(to[i] + from[i]);
  }
};
template <ir::DType type>
struct AddHalf {
  using Memory = uint16_t;
  using Update = uint16_t;
  static float wide(uint16_t half) { return type == ir::DType::bf16 ? ir::bf16_to_float(half) : ir::f16_to_float(half); }
  static void put(ScatterArgs::Kind, uint16_t* there, const uint16_t* update) {
    const float sum = wide(*there) + wide(*update);
    *there = type == ir::DType::bf16 ? ir::float_to_bf16(sum) : ir::float_to_f16(sum);
  }
  static void add_neighbours(uint16_t* to, const uint16_t* from, int64_t n) {
    const BlockArgument both[] = {{to, false}, {from, false}};
    block_ops().pass(Pass::add, type, to, both, n);
  }
};
// Halves that are added to floats.
template <ir::DType type>
struct AddToFloat {
  using Memory = float;
  using Update = uint16_t;
  static void put(ScatterArgs::Kind, float* there, const uint16_t* update) { *there += AddHalf<type>::wide(*update); }
  static void add_neighbours(float* to, const uint16_t* from, int64_t n) {
    constexpr int64_t most = scatter_cpu_tuning::elements_at_once;
    float line[most];
    for (int64_t i = 0; i < n; i += most) {
      const int64_t count = std::min(most, n - i);
      block_ops().load(type, line, from + i, 1, count);
      Add<float>::add_neighbours(to + i, line, count);
    }
  }
};
template <class E>
struct Other {
  using Memory = typename E::Memory;
  using Update = Memory;
  static void put(ScatterArgs::Kind kind, Memory* there, const Memory* update) {
    auto* p = reinterpret_cast<std::byte*>(there);
    E::put(p, combine(kind, E::get(p), E::get(reinterpret_cast<const std::byte*>(update))));
  }
};

// Scatters n elements to places, and to equidistant ones.
struct Put {
  void (*elements)(ScatterArgs::Kind, std::byte* to, const int64_t* places, const std::byte* from, int64_t from_step, int64_t n);
  void (*line)(ScatterArgs::Kind, std::byte* to, int64_t to_step, const std::byte* from, int64_t from_step, int64_t n);
};

template <class How>
struct PutOf {
  using M = typename How::Memory;
  using U = typename How::Update;
  static void elements(ScatterArgs::Kind kind, std::byte* into, const int64_t* places, const std::byte* updates, int64_t from_step, int64_t n) {
    M* to = reinterpret_cast<M*>(into);
    const U* from = reinterpret_cast<const U*>(updates);
    for (int64_t i = 0; i < n; ++i) How::put(kind, to + places[i], from + i * from_step);
  }
  static void line(ScatterArgs::Kind kind, std::byte* into, int64_t to_step, const std::byte* updates, int64_t from_step, int64_t n) {
    M* to = reinterpret_cast<M*>(into);
    const U* from = reinterpret_cast<const U*>(updates);
    if constexpr (requires { How::add_neighbours(to, from, n); }) {
      if (to_step == 1 && from_step == 1) return How::add_neighbours(to, from, n);
    }
    for (int64_t i = 0; i < n; ++i) How::put(kind, to + i * to_step, from + i * from_step);
  }
  static constexpr Put functions{elements, line};
};

template <template <class> class How>
const Put* of_size(size_t size) {
  switch (size) {
    case 1: return &PutOf<How<uint8_t>>::functions;
    case 2: return &PutOf<How<uint16_t>>::functions;
    case 4: return &PutOf<How<uint32_t>>::functions;
    default: return &PutOf<How<uint64_t>>::functions;
  }
}

// `type`: of the result. Updates are of the same, but for halves that are added to floats.
const Put& put_of(ScatterArgs::Kind kind, ir::DType type, ir::DType update) {
  const Put* out = nullptr;
  if (type != update) return update == ir::DType::bf16 ? PutOf<AddToFloat<ir::DType::bf16>>::functions : PutOf<AddToFloat<ir::DType::f16>>::functions;
  if (kind == ScatterArgs::Kind::set && type != ir::DType::b8) return *of_size<Set>(ir::size_of(type));
  if (kind == ScatterArgs::Kind::add && ir::is_integer(type)) return *of_size<Add>(ir::size_of(type));
  if (kind == ScatterArgs::Kind::add && type == ir::DType::f32) return PutOf<Add<float>>::functions;
  if (kind == ScatterArgs::Kind::add && type == ir::DType::f64) return PutOf<Add<double>>::functions;
  if (kind == ScatterArgs::Kind::add && type == ir::DType::bf16) return PutOf<AddHalf<ir::DType::bf16>>::functions;
  if (kind == ScatterArgs::Kind::add && type == ir::DType::f16) return PutOf<AddHalf<ir::DType::f16>>::functions;
  with_element(type, [&](auto element) { out = &PutOf<Other<decltype(element)>>::functions; });
  return *out;
}

// Scatters a line of updates whose element i goes to i * to_step and the places of its indices.
void put_line(const Put& put, const ScatterArgs& args, std::span<const Index> indices, std::byte* to, int64_t to_step, const std::byte* from, int64_t from_step, int64_t n,
              size_t size) {
  constexpr int64_t capacity = scatter_cpu_tuning::elements_at_once;
  int64_t places[capacity];
  for (int64_t begin = 0; begin < n; begin += capacity) {
    const int64_t count = std::min(capacity, n - begin);
    for (size_t k = 0; k < indices.size(); ++k) {
      Index index = indices[k];
      index.values += begin * index.step;
      find_places(places, k == 0 ? nullptr : places, begin * to_step, to_step, index, args.wrap, count);
    }
    put.elements(args.kind, to, places, from + begin * from_step * static_cast<int64_t>(size), from_step, count);
  }
}

// The updates of a scatter and their destinations.
class Scatter {
 public:
  // `out`: the result, or floats in its place.
  Scatter(const Call& call, const TensorRef& out)
      : args_(*static_cast<const ScatterArgs*>(call.constants)), call_(call), updates_(call.operands[0]), out_(out), first_(call.operands[1]), last_(updates_.rank - 1) {
    // Axis d of the updates is axis `d - position` of the indices, or a result axis that is not indexed.
    for (int d = 0, rest = 0; d < out_.rank; ++d) {
      if (scattered(args_, d)) continue;
      to_strides_[rest < args_.position ? rest : rest + first_.rank] = out_.strides[d];
      ++rest;
    }
    if (last_ >= 0) line_ = {updates_.dims[last_], updates_.strides[last_], to_strides_[last_], {}};
    for (size_t k = 0; k < args_.axes.size(); ++k) {
      for (int d = args_.position; d < args_.position + first_.rank; ++d) index_strides_[k][d] = index(k).strides[d - args_.position];
      line_.index_step[k] = last_ >= 0 ? index_strides_[k][last_] : 0;
    }
    lines_ = updates_;
    lines_.rank = std::max(last_, 0);
    whole_ = std::all_of(line_.index_step, line_.index_step + args_.axes.size(), [](int64_t step) { return step == 0; });
  }

  // Slices along the axes before the indices are disjoint in the result, so threads may take them.
  int64_t parts() const {
    int64_t n = 1;
    for (int d = 0; d < std::min(static_cast<int>(args_.position), last_); ++d) n *= updates_.dims[d];
    return n;
  }

  // True if each line goes to one place of the indexed axes: threads may take places of the first of these, each looking at all lines.
  bool has_whole_lines() const { return whole_ && last_ >= 0 && line_.length >= 8; }
  int64_t places() const { return out_.dims[args_.axes[0]]; }

  // Adds whole lines of floats. Neighbours that go to one place, as the rows of a bag do, are summed first.
  bool adds_lines() const {
    return whole_ && last_ == 1 && args_.kind == ScatterArgs::Kind::add && out_.dtype == ir::DType::f32 && updates_.dtype == ir::DType::f32 && args_.axes.size() == 1 &&
           first_.rank == 1 && args_.position == 0 && line_.from_step == 1 && line_.to_step == 1;
  }
  void add_lines(int64_t begin, int64_t end, int64_t first, int64_t last) const {
    constexpr int64_t capacity = scatter_cpu_tuning::elements_at_once;
    double sums[capacity];
    const int64_t *at = reinterpret_cast<const int64_t*>(first_.data), step = first_.strides[0], rows = updates_.strides[0];
    const auto* from = reinterpret_cast<const float*>(updates_.data);
    const BlockOps& ops = block_ops();
    for (int64_t n = begin, next; n < end; n = next) {
      for (next = n + 1; next < end && at[next * step] == at[n * step];) ++next;
      const int64_t place = checked(at[n * step], places(), args_.wrap);
      if (place < first || place >= last) continue;
      float* to = reinterpret_cast<float*>(out_.data) + place * out_.strides[args_.axes[0]];
      for (int64_t c = 0; c < line_.length; c += capacity) {
        const int64_t count = std::min(capacity, line_.length - c);
        if (next == n + 1) {
          Add<float>::add_neighbours(to + c, from + n * rows + c, count);
          continue;
        }
        ops.take_rows(sums, {from + n * rows + c, rows}, next - n, true, count);
        for (int64_t i = 0; i < count; ++i) to[c + i] = static_cast<float>(static_cast<double>(to[c + i]) + sums[i]);
      }
    }
  }

  // Lines that go to places [first, last) of the first indexed axis, if lines are whole; else all.
  void lines(int64_t begin, int64_t end, int64_t first = 0, int64_t last = INT64_MAX) const {
    if (adds_lines()) return add_lines(begin, end, first, last);
    Index indices[max_rank];
    for (size_t k = 0; k < args_.axes.size(); ++k) indices[k] = {nullptr, line_.index_step[k], out_.dims[args_.axes[k]], out_.strides[args_.axes[k]]};
    Walk at = walk(begin);
    for (int64_t n = begin; n < end; ++n, next(at)) {
      int64_t to = at.base, step = line_.to_step;
      if (last != INT64_MAX) {
        const int64_t place = checked(index_of(index(0), at.index[0]), places(), args_.wrap);
        if (place < first || place >= last) continue;
      }
      const std::byte* from = element(updates_, at.from);
      if (last_ >= 0 && equal_steps(at, to, step)) {
        put_.line(args_.kind, element(out_, to), step, from, line_.from_step, line_.length);
        continue;
      }
      for (size_t k = 0; k < args_.axes.size(); ++k) indices[k].values = reinterpret_cast<const int64_t*>(element(index(k), at.index[k]));
      put_line(put_, args_, {indices, args_.axes.size()}, element(out_, at.base), line_.to_step, from, line_.from_step, line_.length, ir::size_of(updates_.dtype));
    }
  }

 private:
  const TensorRef& index(size_t k) const { return call_.operands[1 + k]; }

  // The start of a line: in the updates, in the result (without its indices), and in each index.
  struct Walk {
    int64_t coordinates[max_rank] = {};
    int64_t from = 0, base = 0, index[max_rank] = {};
    // The stride of the last line examined, per index.
    int64_t looked_at[max_rank], grows[max_rank];
  };
  Walk walk(int64_t line) const {
    Walk w;
    coordinates(line, lines_, w.coordinates);
    std::fill(w.looked_at, w.looked_at + max_rank, INT64_MIN);
    for (int d = 0; d < last_; ++d) move(w, d, w.coordinates[d]);
    return w;
  }
  void move(Walk& w, int d, int64_t by) const {
    w.from += by * updates_.strides[d];
    w.base += by * to_strides_[d];
    for (size_t k = 0; k < args_.axes.size(); ++k) w.index[k] += by * index_strides_[k][d];
  }
  void next(Walk& w) const {
    for (int d = last_ - 1; d >= 0; --d) {
      move(w, d, 1);
      if (++w.coordinates[d] < updates_.dims[d]) return;
      move(w, d, -updates_.dims[d]);
      w.coordinates[d] = 0;
    }
  }

  // True if all indices of a line grow by a constant step and are inside; then sets the first place and the stride.
  bool equal_steps(Walk& w, int64_t& to, int64_t& step) const {
    for (size_t k = 0; k < args_.axes.size(); ++k) {
      const int64_t by = line_.index_step[k], extent = out_.dims[args_.axes[k]], stride = out_.strides[args_.axes[k]];
      const auto* values = reinterpret_cast<const int64_t*>(element(index(k), w.index[k]));
      const int64_t begin = values[0], end = values[(line_.length - 1) * by];
      if (begin < 0 || begin >= extent || end < 0 || end >= extent) return false;
      if (by == 0) w.grows[k] = 0;
      if (by != 0 && w.looked_at[k] != w.index[k]) {
        const int64_t rest = std::max<int64_t>(line_.length - 1, 1), grows = (end - begin) / rest;
        bool same = begin + rest * grows == end || line_.length == 1;
        for (int64_t i = 1; same && i < line_.length; ++i) same = values[i * by] == begin + i * grows;
        if (!same) return false;
        w.looked_at[k] = w.index[k];
        w.grows[k] = grows;
      }
      to += begin * stride;
      step += w.grows[k] * stride;
    }
    return true;
  }

  const ScatterArgs& args_;
  const Call& call_;
  const TensorRef &updates_, &out_, &first_;
  const int last_;
  int64_t to_strides_[max_rank] = {}, index_strides_[max_rank][max_rank] = {};  // along the updates' axes
  Line line_;
  TensorRef lines_;
  bool whole_ = false;
  const Put& put_ = put_of(args_.kind, out_.dtype, updates_.dtype);
};

void scatter_into(const Call& call, const TensorRef& out) {
  const TensorRef& updates = call.operands[0];
  const Scatter scatter(call, out);
  const int64_t parts = scatter.parts(), all = numel(updates) / std::max<int64_t>(updates.rank > 0 ? updates.dims[updates.rank - 1] : 1, 1);
  const bool undivided = numel(updates) < scatter_cpu_tuning::least_divided;
  const int64_t tasks = undivided ? 1 : std::min<int64_t>(parts, int64_t{4} * call.workers->count());
  const int64_t shares = undivided || parts > 1 || !scatter.has_whole_lines() ? 1 : std::min<int64_t>(scatter.places(), call.workers->count());
  if (shares > 1) return call.workers->run(shares, [&](int64_t task, int) { scatter.lines(0, all, scatter.places() * task / shares, scatter.places() * (task + 1) / shares); });
  call.workers->run(tasks, [&](int64_t task, int) { scatter.lines(parts * task / tasks * (all / parts), parts * (task + 1) / tasks * (all / parts)); });
}

// Scatters into the result, or into floats in its place.
template <class F>
void into(const Call& call, const TensorRef& updates, const TensorRef& out, F scatter) {
  if (!adds_in_floats(*static_cast<const ScatterArgs*>(call.constants), updates, out)) return scatter(out);
  const Floats floats(call, out);
  floats.read();
  scatter(floats.ref);
  floats.write();
}

void run(const Call& call) {
  const TensorRef& updates = call.operands[0];
  if (numel(updates) == 0) return;
  into(call, updates, call.operands.back(), [&](const TensorRef& out) { scatter_into(call, out); });
}

// A part of a scatter_along: the indices from `first` on, so many along each axis.
void put_along(const Put& put, const Call& call, const TensorRef& out, const int64_t* first, const int64_t* counts) {
  const auto& args = *static_cast<const ScatterArgs*>(call.constants);
  const TensorRef &index = call.operands[0], &updates = call.operands[1];
  const int axis = args.axes[0], last = index.rank - 1;
  int64_t steps[max_rank] = {};  // in the result: 0 along the axis
  for (int d = 0; d <= last; ++d) steps[d] = d == axis ? 0 : out.strides[d];
  int64_t from = 0, base = 0, where = 0, at[max_rank] = {}, lines = 1;
  auto move = [&](int d, int64_t by) {
    from += by * updates.strides[d];
    where += by * index.strides[d];
    base += by * steps[d];
  };
  for (int d = 0; d <= last; ++d) move(d, first[d]);
  for (int d = 0; d < last; ++d) lines *= counts[d];
  Index line{nullptr, last < 0 ? 0 : index.strides[last], out.rank == 0 ? 1 : out.dims[axis], out.rank == 0 ? 0 : out.strides[axis]};
  const int64_t n = last < 0 ? 1 : counts[last], to_step = last < 0 ? 0 : steps[last], from_step = last < 0 ? 0 : updates.strides[last];
  for (; lines > 0; --lines) {
    line.values = reinterpret_cast<const int64_t*>(element(index, where));
    if (line.step == 0 && last != axis) {  // all of it goes to one place of the axis
      put.line(args.kind, element(out, base + checked(*line.values, line.extent, args.wrap) * line.stride), to_step, element(updates, from), from_step, n);
    } else {
      put_line(put, args, {&line, 1}, element(out, base), to_step, element(updates, from), from_step, n, ir::size_of(updates.dtype));
    }
    for (int d = last - 1; d >= 0; --d) {
      move(d, 1);
      if (++at[d] < counts[d]) break;
      move(d, -counts[d]);
      at[d] = 0;
    }
  }
}

// Threads take parts of the longest axis other than the one of the indices: what they write is disjoint.
void scatter_along_into(const Call& call, const TensorRef& out) {
  const auto& args = *static_cast<const ScatterArgs*>(call.constants);
  const TensorRef &index = call.operands[0], &updates = call.operands[1];
  int longest = -1;
  for (int d = 0; d < index.rank; ++d) {
    if (d != args.axes[0] && (longest < 0 || index.dims[d] > index.dims[longest])) longest = d;
  }
  const int64_t tasks = longest < 0 || numel(index) < scatter_cpu_tuning::least_divided_along ? 1 : std::min<int64_t>(index.dims[longest], call.workers->count());
  const Put& put = put_of(args.kind, out.dtype, updates.dtype);
  call.workers->run(tasks, [&](int64_t task, int) {
    int64_t first[max_rank] = {}, counts[max_rank];
    std::copy(index.dims, index.dims + index.rank, counts);
    if (tasks > 1) {
      first[longest] = index.dims[longest] * task / tasks;
      counts[longest] = index.dims[longest] * (task + 1) / tasks - first[longest];
    }
    put_along(put, call, out, first, counts);
  });
}

void run_along(const Call& call) {
  const TensorRef& index = call.operands[0];
  if (numel(index) == 0) return;
  into(call, index, call.operands[2], [&](const TensorRef& out) { scatter_along_into(call, out); });
}

}  // namespace

std::span<const RunKernel> scatter_cpu_kernels() {
  static constexpr RunKernel list[] = {{"scatter", load_scatter, resolve, run}, {"scatter_along", load_scatter_along, resolve_along, run_along}};
  return list;
}

}  // namespace ingot::kernels
