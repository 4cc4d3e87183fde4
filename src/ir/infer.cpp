#include <algorithm>

#include "base/error.h"
#include "ir/compose.h"
#include "ir/fourier.h"
#include "ir/graph.h"

namespace ingot::ir {

namespace {

class Infer {
 public:
  Infer(const Graph& g, Op op, const std::vector<ValueId>& in, const Attributes& a) : g_(g), op_(op), in_(in), a_(a) {}

  std::vector<Type> run() {
    if (is_map(op_)) return {map()};
    for (ValueId v : in_) {
      if (is_wide_unsigned(g_.type(v).dtype) && !takes_wide_unsigned(op_)) bad("has no meaning on {}", name_of(g_.type(v).dtype));
    }
    switch (op_) {
      case Op::literal: return {literal()};
      case Op::size: return {size()};
      case Op::index: return {index()};
      case Op::view: return {view()};
      case Op::reshape: return {reshape()};
      case Op::reduce: return {reduce()};
      case Op::scan: return {scan()};
      case Op::concat: return {concat()};
      case Op::gather: return {gather()};
      case Op::take_along: return {take_along()};
      case Op::scatter: return {scatter()};
      case Op::scatter_along: return {scatter_along()};
      case Op::sort: return sort();
      case Op::moments: return moments();
      case Op::topk: return topk();
      case Op::update: return {update()};
      case Op::matmul: return {matmul()};
      case Op::ragged_matmul: return {ragged_matmul()};
      case Op::reduce_segments: return {reduce_segments()};
      case Op::attention: return {attention()};
      case Op::branch: return branch();
      case Op::loop: return loop();
      case Op::external: return external();
      case Op::lu: return lu();
      case Op::solve: return solve();
      case Op::inverse: return inverse();
      case Op::determinant: return determinant();
      case Op::cholesky: return inverse();
      case Op::solve_triangular: return {solve_triangular()};
      case Op::qr: return qr();
      case Op::fourier: return fourier();
      case Op::fourier_of_real: return fourier_of_real();
      case Op::fourier_to_real: return {fourier_to_real()};
      case Op::grid_sample: return {grid_sample()};
      default: bad("has no rule for its result type");
    }
  }

 private:
  template <class... A>
  [[noreturn]] void bad(fmt::format_string<A...> text, A&&... arguments) {
    fail(Code::invalid_input, "{}: {}", name_of(op_), fmt::format(text, std::forward<A>(arguments)...));
  }
  const Type& type(size_t i) {
    if (i >= in_.size()) bad("operand {} is missing", i);
    return g_.type(in_[i]);
  }
  void count(size_t n) {
    if (in_.size() != n) bad("takes {} operands, got {}", n, in_.size());
  }
  std::string show(const Dims& dims) {
    std::string s = "[";
    for (size_t i = 0; i < dims.size(); ++i) s += (i ? ", " : "") + dims[i].text(g_.symbols);
    return s + "]";
  }
  void same(const Dim& a, const Dim& b, const char* what) {
    if (known_equal(a, b, g_.symbols) == Truth::no) bad("{}: {} and {} differ", what, a.text(g_.symbols), b.text(g_.symbols));
  }
  size_t axis(const Type& t, const char* name = "axis") {
    int64_t a = a_.integer(name);
    if (a < 0 || a >= t.rank()) bad("axis {} is outside rank {}", a, t.rank());
    return static_cast<size_t>(a);
  }
  Dims broadcast_all(size_t from) {
    Dims dims;
    for (size_t i = from; i < in_.size(); ++i) dims = broadcast(dims, type(i).dims, g_.symbols);
    return dims;
  }

  Type map() {
    count(static_cast<size_t>(arity_of(op_)));
    size_t first = op_ == Op::select ? 1 : 0;
    DType t = type(first).dtype;
    if (op_ == Op::select && type(0).dtype != DType::b8) bad("the condition is {}, not b8", name_of(type(0).dtype));
    for (size_t i = first + 1; i < in_.size(); ++i) {
      if (type(i).dtype != t) bad("operands have dtypes {} and {}", name_of(t), name_of(type(i).dtype));
    }
    domain(t);
    Dims dims = broadcast_all(0);
    switch (result_of(op_)) {
      case ResultType::boolean: return {DType::b8, dims};
      case ResultType::attribute:
        if (const DType to = a_.dtype("dtype"); op_ == Op::bitcast && !has_bits_of(to, t)) bad("{} has not the bits of {}", name_of(to), name_of(t));
        return {a_.dtype("dtype"), dims};
      default: return {t, dims};
    }
  }

  // prim.def says which element types an operation has a meaning for.
  void domain(DType t) {
    if (takes(op_, t)) return;
    switch (operands_of(op_)) {
      case Operands::numbers: bad("is for numbers, not {}", name_of(t));
      case Operands::floats: bad("is for floating-point numbers, not {}", name_of(t));
      case Operands::wide_floats: bad("is for f32 and f64, not {}", name_of(t));
      case Operands::integers: bad("is for integers and b8, not {}", name_of(t));
      case Operands::whole_numbers: bad("is for integers, not {}", name_of(t));
      case Operands::logical: bad("is for b8, not {}", name_of(t));
      default: bad("has no meaning on {}", name_of(t));
    }
  }

  Type literal() {
    count(0);
    a_.scalar("value");
    return {a_.dtype("dtype"), {}};
  }

  Type size() {
    count(0);
    a_.dim("dim");
    return {DType::i64, {}};
  }

  // The graphs of a branch or a loop, each with as many inputs as there are operands from `first` on, of their dtypes and ranks.
  std::vector<GraphRef> graphs(size_t first) {
    std::vector<GraphRef> out = a_.graphs("graphs");
    if (out.size() != 2) bad("has {} graphs, not 2", out.size());
    for (const GraphRef& g : out) {
      if (g->inputs.size() + first != in_.size()) bad("a graph takes {} operands, got {}", g->inputs.size(), in_.size() - first);
      for (size_t i = 0; i < g->inputs.size(); ++i) like(g->type(g->inputs[i].value), type(first + i));
    }
    return out;
  }
  void like(const Type& given, const Type& wanted) {
    if (given.dtype != wanted.dtype || given.rank() != wanted.rank()) {
      bad("a tensor of {} of rank {} stands where {} of rank {} is needed", name_of(given.dtype), given.rank(), name_of(wanted.dtype), wanted.rank());
    }
  }
  // What the graph gives; its sizes are sizes of the graph around it.
  std::vector<Type> results(const Graph& g) {
    std::vector<Type> out;
    std::vector<SymbolId> used;
    for (const Output& o : g.outputs) {
      if (o.to == Output::To::size) continue;
      if (o.to != Output::To::caller) bad("a graph inside writes to \"{}\"", o.name);
      out.push_back(g.type(o.value));
      for (const Dim& d : out.back().dims) d.collect_symbols(used);
    }
    for (SymbolId s : used) {
      if (s >= g_.symbols.size() || s >= g.symbols.size() || g_.symbols[s].name != g.symbols[s].name) bad("the size of a result is not known outside");
    }
    return out;
  }
  void condition(const Type& t) {
    if (t.dtype != DType::b8 || t.rank() != 0) bad("the condition is not a 0-d b8");
  }

  std::vector<Type> branch() {
    condition(type(0));
    std::vector<GraphRef> g = graphs(1);
    std::vector<Type> out = results(*g[0]), other = results(*g[1]);
    if (out.size() != other.size()) bad("one graph gives {} results, the other {}", out.size(), other.size());
    for (size_t i = 0; i < out.size(); ++i) like(other[i], out[i]);
    return out;
  }

  std::vector<Type> loop() {
    std::vector<GraphRef> g = graphs(0);
    const int64_t carried = a_.integer("carried");
    if (carried < 0 || carried > static_cast<int64_t>(in_.size())) bad("carries {} of {} operands", carried, in_.size());
    std::vector<Type> test = results(*g[0]), next = results(*g[1]);
    if (test.size() != 1 || static_cast<int64_t>(next.size()) != carried) bad("its graphs give {} and {} results", test.size(), next.size());
    condition(test[0]);
    if (a_.find("count") != nullptr) a_.dim("count");
    for (size_t i = 0; i < next.size(); ++i) like(next[i], type(i));
    return next;
  }

  Type scan() {
    count(1);
    axis(type(0));
    const std::string& kind = a_.string("kind");
    if (kind != "sum" && kind != "prod" && kind != "max" && kind != "min" && kind != "logsumexp") bad("unknown kind \"{}\"", kind);
    if (kind == "logsumexp" && !is_float(type(0).dtype)) bad("logsumexp is for floating-point numbers, not {}", name_of(type(0).dtype));
    return type(0);
  }

  std::vector<Type> sort() {
    count(1);
    axis(type(0));
    a_.boolean("descending");
    a_.boolean("stable");
    return {type(0), Type{DType::i64, type(0).dims}};
  }

  std::vector<Type> moments() {
    count(1);
    if (!is_float(type(0).dtype)) bad("moments are of floating-point numbers, not of {}", name_of(type(0).dtype));
    const std::vector<int64_t> axes = a_.integers("axes");
    Type out{compute_type(type(0).dtype), {}};
    for (size_t d = 0; d < type(0).dims.size(); ++d) {
      if (std::count(axes.begin(), axes.end(), static_cast<int64_t>(d)) == 0) out.dims.push_back(type(0).dims[d]);
    }
    if (axes.empty() || out.dims.size() + axes.size() != type(0).dims.size()) bad("the axes are not some of the operand's {}, each once", type(0).dims.size());
    return {out, out};
  }

  // The batch axes of a small matrix.
  Dims matrices(const Type& t) {
    if (t.dtype != DType::f32 && t.dtype != DType::f64) bad("is for f32 and f64, not {}", name_of(t.dtype));
    if (t.rank() < 2) bad("a matrix has two axes, not {}", t.rank());
    for (size_t d = t.dims.size() - 2; d < t.dims.size(); ++d) {
      const auto n = t.dims[d].constant();
      if (!n || *n < 1 || *n > max_matrix) bad("a matrix of {} is not of known sizes from 1 to {}", show(t.dims), max_matrix);
    }
    return {t.dims.begin(), t.dims.end() - 2};
  }
  Dims square(const Type& t) {
    Dims batch = matrices(t);
    if (t.dims.back() != t.dims[batch.size()]) bad("a matrix of {} is not square", show(t.dims));
    return batch;
  }
  // b of a x = b.
  Type right_side() {
    count(2);
    const Dims batch = square(type(0));
    const Type& b = type(1);
    if (b.dtype != type(0).dtype || b.rank() != type(0).rank())
      bad("the two sides are {} of rank {} and {} of rank {}", name_of(type(0).dtype), type(0).rank(), name_of(b.dtype), b.rank());
    for (size_t d = 0; d <= batch.size(); ++d) same(b.dims[d], type(0).dims[d], "sizes of the two sides");
    return b;
  }
  static Dims with(Dims batch, const Dims& more) {
    batch.insert(batch.end(), more.begin(), more.end());
    return batch;
  }

  std::vector<Type> lu() {
    count(1);
    const Type& a = type(0);
    const Dims batch = matrices(a);
    return {a, Type{DType::i32, with(batch, {std::min(*a.dims[batch.size()].constant(), *a.dims.back().constant())})}, Type{DType::i32, batch}};
  }
  std::vector<Type> solve() {
    Type x = right_side();
    return {x, Type{DType::i32, square(type(0))}};
  }
  Type solve_triangular() {
    a_.boolean("upper");
    a_.boolean("unit");
    return right_side();
  }
  std::vector<Type> inverse() {
    count(1);
    return {type(0), Type{DType::i32, square(type(0))}};
  }
  std::vector<Type> determinant() {
    count(1);
    const Type each{type(0).dtype, square(type(0))};
    return {each, each, each};
  }
  std::vector<Type> qr() {
    count(1);
    const Type& a = type(0);
    const Dims batch = matrices(a);
    const int64_t m = *a.dims[batch.size()].constant(), n = *a.dims.back().constant(), k = a_.boolean("complete") ? m : std::min(m, n);
    return {Type{a.dtype, with(batch, {m, k})}, Type{a.dtype, with(batch, {k, n})}};
  }

  // The operands of a Fourier transform, of `n` along the last axis. Gives their type.
  Type transformed(size_t operands, const Dim& n) {
    count(operands);
    const Type& t = type(0);
    if (t.dtype != DType::f32 && t.dtype != DType::f64) bad("is for f32 and f64, not {}", name_of(t.dtype));
    const int64_t axes = ir::fourier_axes(a_);
    if (axes < 1 || axes > max_fourier_axes) bad("is along {} axes", axes);
    if (t.rank() < axes) bad("has no axis");
    if (operands == 2 && (type(1).dtype != t.dtype || type(1).rank() != t.rank()))
      bad("the parts are {} of rank {} and {} of rank {}", name_of(t.dtype), t.rank(), name_of(type(1).dtype), type(1).rank());
    for (size_t d = 0; operands == 2 && d < t.dims.size(); ++d) same(t.dims[d], type(1).dims[d], "sizes of the parts");
    auto not_empty = [&](const Dim& length) {
      if (known_less(length, 1, g_.symbols) == Truth::yes) bad("has {} elements", length.text(g_.symbols));
    };
    not_empty(n);
    for (int64_t i = 2; i <= axes; ++i) not_empty(t.dims[static_cast<size_t>(t.rank() - i)]);
    return t;
  }
  static Type with_last(Type t, Dim n) {
    t.dims.back() = std::move(n);
    return t;
  }
  Dim last() { return type(0).rank() == 0 ? Dim(1) : type(0).dims.back(); }
  std::vector<Type> fourier() {
    Type t = transformed(2, last());
    return {t, t};
  }
  std::vector<Type> fourier_of_real() {
    Type half = with_last(transformed(1, last()), floordiv(last(), 2) + 1);
    return {half, half};
  }
  Type fourier_to_real() {
    const Dim& n = a_.dim("length");
    Type t = transformed(2, n);
    same(t.dims.back(), floordiv(n, 2) + 1, "elements of a half");
    return with_last(t, n);
  }

  Type grid_sample() {
    count(2);
    const Type &x = type(0), &grid = type(1);
    const int64_t n = x.rank() - 2;
    const std::string &mode = a_.string("mode"), &outside = a_.string("outside");
    a_.boolean("corners");
    if (mode != "linear" && mode != "nearest" && !(mode == "cubic" && n == 2)) bad("mode {} of an x of rank {}", mode, x.rank());
    if (outside != "zeros" && outside != "border" && outside != "reflection") bad("there is no {} outside", outside);
    if (!is_float(x.dtype) || (grid.dtype != DType::f32 && grid.dtype != DType::f64)) bad("x is {}, the grid {}", name_of(x.dtype), name_of(grid.dtype));
    if (n < 1 || grid.rank() < 2) bad("x has rank {}, the grid {}", x.rank(), grid.rank());
    same(grid.dims.back(), n, "places of a point and axes of x");
    same(x.dims[0], grid.dims[0], "batches");
    Dims dims(grid.dims.begin(), grid.dims.end() - 1);
    dims.insert(a_.boolean("channels_last") ? dims.end() : dims.begin() + 1, x.dims[1]);
    return {x.dtype, dims};
  }

  // An affine map from a result to an operand of rank `operand`.
  void well_formed(const AffineMap& map, int64_t operand) {
    if (static_cast<int64_t>(map.axes.size()) != operand) bad("the map has {} axes for an operand of rank {}", map.axes.size(), operand);
    for (const AffineMap::Axis& axis : map.axes) {
      for (size_t i = 0; i < axis.terms.size(); ++i) {
        if (axis.terms[i].axis >= map.dims.size()) bad("the map names axis {} of a result of rank {}", axis.terms[i].axis, map.dims.size());
        if (i > 0 && axis.terms[i].axis <= axis.terms[i - 1].axis) bad("the map's terms are not in order");
      }
    }
  }

  Type index() {
    count(0);
    Dims dims = a_.dims("dims");
    axis(Type{DType::i64, dims});
    return {DType::i64, dims};
  }

  Type view() {
    count(1);
    const AffineMap& map = a_.map("map");
    well_formed(map, type(0).rank());
    return {type(0).dtype, map.dims};
  }

  Type reshape() {
    count(1);
    Dims dims = a_.dims("dims");
    if (known_equal(product(dims), product(type(0).dims), g_.symbols) == Truth::no) {
      bad("{} and {} have different numbers of elements", show(type(0).dims), show(dims));
    }
    return {type(0).dtype, dims};
  }

  Type reduce() {
    count(1);
    const Type& x = type(0);
    const std::string& kind = a_.string("kind");
    std::vector<int64_t> axes = a_.integers("axes");
    bool keep = a_.boolean("keep");
    std::vector<bool> gone(x.dims.size(), axes.empty());
    for (int64_t a : axes) {
      if (a < 0 || a >= x.rank()) bad("axis {} is outside rank {}", a, x.rank());
      if (gone[static_cast<size_t>(a)]) bad("axis {} appears twice", a);
      gone[static_cast<size_t>(a)] = true;
    }
    Dims dims;
    for (size_t i = 0; i < x.dims.size(); ++i) {
      if (!gone[i]) {
        dims.push_back(x.dims[i]);
      } else if (keep) {
        dims.push_back(1);
      }
    }
    DType t = x.dtype;
    if (kind == "argmax" || kind == "argmin") {
      if (axes.size() > 1) bad("{} takes one axis or all", kind);
      t = DType::i64;
    } else if (kind == "any" || kind == "all") {
      t = DType::b8;
    } else if (kind != "sum" && kind != "prod" && kind != "max" && kind != "min") {
      bad("unknown kind \"{}\"", kind);
    }
    return {t, dims};
  }

  Type concat() {
    size_t a = axis(type(0));
    Type out = type(0);
    for (size_t i = 1; i < in_.size(); ++i) {
      const Type& t = type(i);
      if (t.dtype != out.dtype) bad("operands have dtypes {} and {}", name_of(out.dtype), name_of(t.dtype));
      if (t.rank() != out.rank()) bad("operands have ranks {} and {}", out.rank(), t.rank());
      for (size_t d = 0; d < t.dims.size(); ++d) {
        if (d == a) {
          out.dims[d] += t.dims[d];
        } else {
          same(out.dims[d], t.dims[d], "sizes besides the joined axis");
        }
      }
    }
    return out;
  }

  // Result dims of gather: table dims without the gathered axes, the index dims at `position`.
  Dims gathered(const Type& table, size_t first_index) {
    std::vector<int64_t> axes = a_.integers("axes");
    if (axes.size() != in_.size() - first_index || axes.empty()) bad("{} axes for {} index operands", axes.size(), in_.size() - first_index);
    for (size_t i = first_index; i < in_.size(); ++i) {
      if (type(i).dtype != DType::i64) bad("an index is {}, not i64", name_of(type(i).dtype));
    }
    Dims index_dims = broadcast_all(first_index), rest;
    for (int64_t d = 0; d < table.rank(); ++d) {
      if (std::count(axes.begin(), axes.end(), d) == 0) rest.push_back(table.dims[static_cast<size_t>(d)]);
    }
    for (int64_t a : axes) {
      if (a < 0 || a >= table.rank() || std::count(axes.begin(), axes.end(), a) != 1) bad("axis {} is outside rank {} or named twice", a, table.rank());
    }
    int64_t position = a_.integer("position");
    if (position < 0 || position > static_cast<int64_t>(rest.size())) bad("position {} is outside 0..{}", position, rest.size());
    rest.insert(rest.begin() + position, index_dims.begin(), index_dims.end());
    return rest;
  }

  Type gather() {
    a_.boolean("wrap");
    return {type(0).dtype, gathered(type(0), 1)};
  }

  Type take_along() {
    count(2);
    axis(type(0));
    if (type(1).dtype != DType::i64) bad("the index is {}, not i64", name_of(type(1).dtype));
    if (type(1).rank() != type(0).rank()) bad("table and index have ranks {} and {}", type(0).rank(), type(1).rank());
    return {type(0).dtype, type(1).dims};
  }

  void kind_of_scatter() {
    const std::string& kind = a_.string("kind");
    if (kind != "set" && kind != "add" && kind != "mul" && kind != "min" && kind != "max") bad("unknown kind \"{}\"", kind);
  }

  Type scatter() {
    kind_of_scatter();
    wraps(a_);
    Dims dims = gathered(type(0), 2);
    if (type(1).dtype != type(0).dtype) bad("base is {}, updates are {}", name_of(type(0).dtype), name_of(type(1).dtype));
    if (dims.size() != type(1).dims.size()) bad("updates have shape {}, but {} is needed", show(type(1).dims), show(dims));
    for (size_t i = 0; i < dims.size(); ++i) same(dims[i], type(1).dims[i], "updates");
    return type(0);
  }

  Type scatter_along() {
    count(3);
    kind_of_scatter();
    axis(type(0));
    if (type(1).dtype != DType::i64) bad("the index is {}, not i64", name_of(type(1).dtype));
    if (type(2).dtype != type(0).dtype) bad("base is {}, updates are {}", name_of(type(0).dtype), name_of(type(2).dtype));
    if (type(1).rank() != type(0).rank() || type(2).rank() != type(0).rank()) bad("base, index and updates have different ranks");
    return type(0);
  }

  std::vector<Type> topk() {
    count(1);
    Type out = type(0);
    a_.boolean("largest");
    a_.boolean("sorted");
    out.dims[axis(out)] = a_.dim("k");
    return {out, Type{DType::i64, out.dims}};
  }

  Type update() {
    count(2);
    const AffineMap& map = a_.map("map");
    if (map.fill) bad("the map has a fill");
    well_formed(map, type(0).rank());
    if (map.dims.size() != type(1).dims.size()) bad("the map has rank {}, the value {}", map.dims.size(), type(1).rank());
    if (type(0).dtype != type(1).dtype) bad("base is {}, value is {}", name_of(type(0).dtype), name_of(type(1).dtype));
    for (size_t i = 0; i < map.dims.size(); ++i) same(map.dims[i], type(1).dims[i], "value");
    return type(0);
  }

  Dims leading(const Type& t, size_t kept) { return Dims(t.dims.begin(), t.dims.end() - static_cast<int64_t>(kept)); }

  Type matmul() {
    count(2);
    const Type &a = type(0), &b = type(1);
    if (a.rank() < 2 || b.rank() < 2) bad("operands of rank {} and {}; 2 or more are needed", a.rank(), b.rank());
    // A decoded weight is more exact than a half type.
    const bool decoded = b.dtype == DType::f32 && compute_type(a.dtype) == DType::f32;
    if (a.dtype != b.dtype && !decoded) bad("operands have dtypes {} and {}", name_of(a.dtype), name_of(b.dtype));
    same(a.dims.back(), b.dims[b.dims.size() - 2], "the inner sizes");
    Dims dims = broadcast(leading(a, 2), leading(b, 2), g_.symbols);
    dims.push_back(a.dims[a.dims.size() - 2]);
    dims.push_back(b.dims.back());
    return {a.dtype, dims};
  }

  Type reduce_segments() {
    count(3);
    const std::string& kind = a_.string("kind");
    if (kind != "add" && kind != "mul" && kind != "min" && kind != "max") bad("unknown kind \"{}\"", kind);
    Type out = type(0);
    if (!is_float(out.dtype) || out.rank() == 0) bad("rows are {} of rank {}", name_of(out.dtype), out.rank());
    for (size_t i : {1, 2}) {
      if (type(i).dtype != DType::i64 || type(i).rank() != 1) bad("operand {} is {} of rank {}", i, name_of(type(i).dtype), type(i).rank());
    }
    out.dims[0] = type(2).dims[0];
    return out;
  }

  Type ragged_matmul() {
    count(3);
    const Type &a = type(0), &b = type(1), &ends = type(2);
    if (a.rank() != 2 || b.rank() != 3 || ends.rank() != 1) bad("operands of rank {}, {} and {}; 2, 3 and 1 are needed", a.rank(), b.rank(), ends.rank());
    if (a.dtype != b.dtype) bad("operands have dtypes {} and {}", name_of(a.dtype), name_of(b.dtype));
    if (ends.dtype != DType::i32 && ends.dtype != DType::i64) bad("the ends of rows are {}, not i32 or i64", name_of(ends.dtype));
    same(a.dims[1], b.dims[1], "the inner sizes");
    same(b.dims[0], ends.dims[0], "the numbers of experts");
    return {a.dtype, {a.dims[0], b.dims[2]}};
  }

  Type attention() {
    const bool filled = a_.find("filled") != nullptr && a_.boolean("filled");
    if (in_.size() != 3u + filled && in_.size() != 4u + filled) bad("takes {} or {} operands, got {}", 3 + filled, 4 + filled, in_.size());
    const Type &q = type(0), &k = type(1), &v = type(2);
    for (size_t i = 0; i < 3; ++i) {
      if (type(i).rank() < 2) bad("operand {} has rank {}; 2 or more are needed", i, type(i).rank());
      if (type(i).dtype != q.dtype) bad("operands have dtypes {} and {}", name_of(q.dtype), name_of(type(i).dtype));
    }
    same(q.dims.back(), k.dims.back(), "head sizes of query and key");
    same(k.dims[k.dims.size() - 2], v.dims[v.dims.size() - 2], "lengths of key and value");
    Dims dims = broadcast(broadcast(leading(q, 2), leading(k, 2), g_.symbols), leading(v, 2), g_.symbols);
    if (filled) {
      const Type& keys = type(in_.size() - 1);
      if (keys.dtype != DType::i64 || keys.rank() != 1) bad("the number of keys is {} of rank {}; i64 of rank 1 is needed", name_of(keys.dtype), keys.rank());
      if (dims.empty()) bad("numbers of keys are of batch elements, and there is no batch axis");
      same(keys.dims[0], dims[0], "the first batch axis and the numbers of keys");
    }
    if (in_.size() == 4u + filled) {
      Dims scores = dims;
      scores.push_back(q.dims[q.dims.size() - 2]);
      scores.push_back(k.dims[k.dims.size() - 2]);
      if (type(3).rank() > static_cast<int64_t>(scores.size())) bad("the mask has rank {}, the scores {}", type(3).rank(), scores.size());
      broadcast(scores, type(3).dims, g_.symbols);
      if (type(3).dtype != DType::b8 && type(3).dtype != q.dtype) bad("the mask is {}; b8 or {} is needed", name_of(type(3).dtype), name_of(q.dtype));
    }
    a_.number("scale");
    a_.boolean("causal");
    dims.push_back(q.dims[q.dims.size() - 2]);
    dims.push_back(v.dims.back());
    return {q.dtype, dims};
  }

  // Nothing follows from the operands but the types of those that are written.
  std::vector<Type> external() {
    const std::vector<int64_t> written = a_.integers("written");
    const auto list = [&](const Attribute& a, const char* what) -> const List& {
      const auto* found = std::get_if<List>(&a.value);
      if (found == nullptr) bad("{} is not a list", what);
      return *found;
    };
    const List &dtypes = list(a_.at("dtypes"), "dtypes"), &dims = list(a_.at("dims"), "dims");
    if (dtypes.size() != dims.size() || dtypes.size() < written.size()) bad("{} types and {} shapes for its results", dtypes.size(), dims.size());
    std::vector<Type> out;
    for (size_t k = 0; k < dtypes.size(); ++k) {
      const auto* dtype = std::get_if<DType>(&dtypes[k].value);
      if (dtype == nullptr) bad("dtype {} is none", k);
      out.push_back({*dtype, Attributes{{"dims", list(dims[k], "a shape")}}.dims("dims")});
      for (const Dim& d : out.back().dims) {
        if (d.is_constant() && d.value() < 0) bad("result {} has a negative size", k);
      }
    }
    for (size_t k = 0; k < written.size(); ++k) {
      if (written[k] < 0 || static_cast<size_t>(written[k]) >= in_.size()) bad("it writes operand {}, and has {}", written[k], in_.size());
      const Type& before = type(static_cast<size_t>(written[k]));
      if (before.dtype != out[k].dtype || before.rank() != out[k].rank()) bad("the new value of operand {} has another type", written[k]);
      for (size_t d = 0; d < before.dims.size(); ++d) same(before.dims[d], out[k].dims[d], "the new value of an operand");
    }
    return out;
  }

  const Graph& g_;
  Op op_;
  const std::vector<ValueId>& in_;
  const Attributes& a_;
};

}  // namespace

std::vector<Type> infer(const Graph& g, Op op, const std::vector<ValueId>& in, const Attributes& attributes) { return Infer(g, op, in, attributes).run(); }

}  // namespace ingot::ir
