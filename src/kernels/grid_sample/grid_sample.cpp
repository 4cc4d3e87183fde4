#include <algorithm>
#include <array>
#include <optional>

#include "kernels/definition.h"
#include "kernels/grid_sample/run/grid_sample_args.h"
#include "kernels/random_case.h"

namespace ingot::kernels {

using namespace ir;

namespace {

using Mode = GridSampleArgs::Mode;
using Outside = GridSampleArgs::Outside;

constexpr const char *modes[] = {"linear", "nearest", "cubic"}, *outsides[] = {"zeros", "border", "reflection"};

GridSampleArgs args_of(const Node& node, const Type& x) {
  auto number_of = [&](const auto& names, const char* attribute) { return std::find(std::begin(names), std::end(names), node.attributes.string(attribute)) - std::begin(names); };
  return {static_cast<Mode>(number_of(modes, "mode")), static_cast<Outside>(number_of(outsides, "outside")), node.attributes.boolean("corners"),
          node.attributes.boolean("channels_last"), static_cast<uint8_t>(x.rank() - 2)};
}

PlainStep plain(const Graph& g, const Node& node) { return {serialise(args_of(node, g.type(node.in[0])))}; }

// The kernel in primitives: elements of one image, all channels at once.
class Sampling {
 public:
  Sampling(const Handle& x, const Handle& grid, const GridSampleArgs& args) : x_(x), args_(args), type_(grid.dtype()), image_(images(x, grid)) {
    for (int64_t i = 0; i < args.axes; ++i) {
      places_.push_back(place(component(grid, args.axes - 1 - i), i));
      if (args.mode != Mode::cubic) places_.back() = inside_axis(places_.back(), i);
    }
  }

  Handle run() {
    const Handle y = cast(args_.mode == Mode::cubic ? cubic() : args_.mode == Mode::linear ? linear() : nearest(), x_.dtype());
    if (args_.channels_last) return y;
    Axes order{0, y.rank() - 1};
    for (Axis i = 1; i < y.rank() - 1; ++i) order.push_back(i);
    return permute(y, order);
  }

 private:
  // An element of an axis that points read. What is computed of its place is computed once, when it is first read.
  struct Tap {
    Handle at;
    int64_t axis;
    std::optional<Handle> inside, index;
  };

  static Handle images(const Handle& x, const Handle& grid) {
    Dims line(static_cast<size_t>(grid.rank() - 1), Dim(1));
    line[0] = x.dim(0);
    return index(x.graph(), line, 0);
  }

  // Component k of all points; if they are joined of parts, that of a part.
  static Handle component(const Handle& grid, int64_t k) {
    const Node& node = grid.graph().producer(grid.id());
    if (node.op == Op::cast) return cast(component(Handle(&grid.graph(), node.in[0]), k), grid.dtype());
    if (node.op == Op::concat && node.attributes.integer("axis") == grid.rank() - 1) {
      int64_t first = 0;
      for (ValueId v : node.in) {
        const Handle part(&grid.graph(), v);
        const auto count = part.dims().back().constant();
        if (!count) break;
        if (k < first + *count) return take(part, -1, k - first);
        first += *count;
      }
    }
    return take(grid, -1, k);
  }

  const Dim& size(int64_t axis) const { return x_.dims()[static_cast<size_t>(2 + axis)]; }

  // size * by + more
  Operand of_size(int64_t axis, double by, double more) const {
    if (auto known = size(axis).constant()) return static_cast<double>(*known) * by + more;
    const Handle n = literal(x_.graph(), size(axis), type_);
    const Handle scaled = by == 1 ? n : n * by;
    return more == 0 ? scaled : scaled + more;
  }

  Handle place(const Handle& at, int64_t axis) const { return args_.corners ? (at + 1.0) * of_size(axis, 0.5, -0.5) : (at + 1.0) * of_size(axis, 0.5, 0) - 0.5; }

  Handle inside_axis(Handle at, int64_t axis) const {
    if (args_.outside == Outside::zeros) return at;
    if (args_.outside == Outside::reflection) {
      const Operand given = of_size(axis, 1, args_.corners ? -1 : 0);
      // Of one element every place becomes it below.
      const Operand span = given.value ? Operand(maximum(*given.value, 1.0)) : Operand(std::max(given.number.to_double(), 1.0));
      constexpr double edge = -0.5;
      at = abs(args_.corners ? at : at - edge);
      const Handle rest = map(Op::fmod, {at, span}), turns = floor(at / span);
      at = select(equal(map(Op::fmod, {turns, 2.0}), 0.0), rest, map(Op::sub, {span, rest}));
      if (!args_.corners) at = at + edge;
    }
    return minimum(maximum(at, 0.0), of_size(axis, 1, -1));
  }

  // x at one element of each axis as [N, out..., C]; 0 outside.
  Handle read(const std::vector<Tap*>& taps) {
    std::vector<int64_t> axes{0};
    std::vector<Handle> indices{image_};
    std::optional<Handle> inside;
    for (Tap* tap : taps) {
      if (!tap->inside) tap->inside = (tap->at >= 0.0) & (tap->at <= of_size(tap->axis, 1, -1));
      inside = inside ? *inside & *tap->inside : *tap->inside;
      if (!tap->index) tap->index = maximum(minimum(cast(select(*tap->inside, tap->at, 0.0), DType::i64), Operand(size(tap->axis) - Dim(1))), 0);
      axes.push_back(2 + tap->axis);
      indices.push_back(*tap->index);
    }
    return select(unsqueeze(*inside, -1), gather(x_, axes, indices, 0, false), 0.0);
  }

  // The same, multiplied.
  Handle read(const std::vector<Tap*>& taps, const Handle& weight) { return cast(read(taps), type_) * unsqueeze(weight, -1); }

  Handle nearest() {
    std::vector<Tap> taps;
    for (size_t i = 0; i < places_.size(); ++i) taps.push_back({round(places_[i]), static_cast<int64_t>(i), {}, {}});
    std::vector<Tap*> all;
    for (Tap& tap : taps) all.push_back(&tap);
    return read(all);
  }

  // The 2^n elements around each place.
  Handle linear() {
    struct Side {
      Tap tap;
      Handle weight;
    };
    std::vector<std::array<Side, 2>> sides;
    for (size_t i = 0; i < places_.size(); ++i) {
      const Handle low = floor(places_[i]), high = low + 1.0;
      const auto axis = static_cast<int64_t>(i);
      sides.push_back({Side{{low, axis, {}, {}}, high - places_[i]}, Side{{high, axis, {}, {}}, places_[i] - low}});
    }
    std::optional<Handle> sum;
    for (size_t corner = 0; corner < size_t{1} << sides.size(); ++corner) {
      std::vector<Tap*> taps;
      std::optional<Handle> weight;
      for (size_t i = 0; i < sides.size(); ++i) {
        Side& side = sides[i][corner >> i & 1];
        taps.push_back(&side.tap);
        weight = weight ? *weight * side.weight : side.weight;
      }
      const Handle term = read(taps, *weight);
      sum = sum ? *sum + term : term;
    }
    return *sum;
  }

  // The 4 x 4 elements around each place; those outside are moved inside one by one.
  Handle cubic() {
    std::array<std::vector<Handle>, 2> weights;
    std::array<std::vector<Tap>, 2> taps;
    for (size_t i = 0; i < 2; ++i) {
      constexpr double a = cubic_coefficient;
      const auto axis = static_cast<int64_t>(i);
      const Handle low = floor(places_[i]), t = places_[i] - low;
      auto near = [&](const Handle& x) { return ((x * (a + 2) - (a + 3)) * x * x) + 1.0; };
      auto far = [&](const Handle& x) { return ((x * a - 5 * a) * x + 8 * a) * x - 4 * a; };
      weights[i] = {far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)};
      for (int64_t k = 0; k < 4; ++k) taps[i].push_back({inside_axis(k == 1 ? low : low + static_cast<double>(k - 1), axis), axis, {}, {}});
    }
    std::optional<Handle> sum;
    for (size_t k = 0; k < 4; ++k) {
      std::optional<Handle> line;
      for (size_t j = 0; j < 4; ++j) {
        const Handle term = read({&taps[0][k], &taps[1][j]}, weights[1][j]);
        line = line ? *line + term : term;
      }
      const Handle term = *line * unsqueeze(weights[0][k], -1);
      sum = sum ? *sum + term : term;
    }
    return *sum;
  }

  const Handle x_;
  const GridSampleArgs args_;
  const DType type_;            // of places and weights
  const Handle image_;          // the number of each point's image
  std::vector<Handle> places_;  // per axis of x: [N, out...]
};

std::vector<ValueId> expand(Graph& to, const Node& node, const std::vector<ValueId>& in) {
  return {Sampling(Handle(&to, in[0]), Handle(&to, in[1]), args_of(node, to.type(in[0]))).run().id()};
}

Graph random_case(std::mt19937& random) {
  RandomCase c(random);
  const int64_t mode = c.below(3), n = mode == 2 || !c.one_in(4) ? 2 : 3;
  const Dim batch = c.one_of<int64_t>({1, 2, 3});
  Dims image{batch, c.one_of<int64_t>({1, 2, 3, 4, 5, 8, 13, 16, 20, 33})}, places{batch};
  for (int64_t d = 0; d < n; ++d) {
    image.push_back(c.one_of<int64_t>({1, 2, 3, 5, 8, 17}));
    places.push_back(c.one_of<int64_t>({1, 2, 3, 5, 8, 17}));
  }
  places.push_back(n);
  const DType type = c.one_in(4) ? DType::f16 : DType::f32;
  c.output("y", grid_sample(c.input("x", type, image), c.input("grid", DType::f32, places), modes[mode], outsides[c.below(3)], c.one_in(2), c.one_in(2)));
  return c.take();
}

}  // namespace

extern const Definition grid_sample_definition;
const Definition grid_sample_definition{"grid_sample", {{Role::input}, {Role::index}, {Role::output}}, {Op::grid_sample}, plain, expand, random_case};

}  // namespace ingot::kernels
