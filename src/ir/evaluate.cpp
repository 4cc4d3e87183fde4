#include "ir/evaluate.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "ir/half.h"

namespace ingot::ir {

namespace {

// The nearest number with `bits` of mantissa and no exponent below 2^`lowest`, ties to even; one rounding, from double.
double round_bits(double v, int bits, int lowest, double limit) {
  if (v == 0 || !std::isfinite(v)) return v;
  int exponent;
  std::frexp(v, &exponent);
  double quantum = std::ldexp(1.0, std::max(exponent - bits, lowest));
  double r = std::nearbyint(v / quantum) * quantum;
  return std::fabs(r) >= limit ? std::copysign(INFINITY, v) : r;
}

double round_to(DType t, double v) {
  switch (t) {
    case DType::f32: return static_cast<float>(v);
    case DType::f16: return round_bits(v, 11, -24, 65536.0);
    case DType::bf16: return round_bits(v, 8, -133, std::ldexp(1.0, 128));
    default: return v;
  }
}

int64_t flat(const Index& at, const Index& dims) {
  int64_t o = 0;
  for (size_t d = 0; d < dims.size(); ++d) o = o * dims[d] + at[d];
  return o;
}

// Flat position of `at` in an operand that broadcasts to the index's rank.
int64_t flat_broadcast(const Index& at, const Index& dims) {
  int64_t o = 0;
  size_t lead = at.size() - dims.size();
  for (size_t d = 0; d < dims.size(); ++d) o = o * dims[d] + (dims[d] == 1 ? 0 : at[lead + d]);
  return o;
}

// Calls fn(index, flat) for every index of `dims`, row-major.
template <class F>
void each(const Index& dims, F fn) {
  if (std::find(dims.begin(), dims.end(), 0) != dims.end()) return;
  Index at(dims.size(), 0);
  for (int64_t n = 0;; ++n) {
    fn(at, static_cast<size_t>(n));
    size_t d = dims.size();
    while (d > 0 && ++at[d - 1] == dims[d - 1]) at[--d] = 0;
    if (d == 0) return;
  }
}

class Evaluator {
 public:
  Evaluator(const Graph& g, std::span<const int64_t> symbols, std::vector<Data>& values) : g_(g), symbols_(symbols), values_(values) {}

  void run(const Node& node) {
    if (is_leaf(node.op)) return;
    std::vector<Data*> out;
    for (ValueId v : node.out) {
      Data& d = values_[v];
      d.dtype = g_.type(v).dtype;
      d.dims = sizes_of(g_.type(v).dims, symbols_);
      d.allocate();
      out.push_back(&d);
    }
    std::vector<const Data*> in;
    for (ValueId v : node.in) in.push_back(&values_[v]);
    dispatch(node, in, out);
    for (Data* d : out) {
      for (double& x : d->f) x = round_to(d->dtype, x);
      for (int64_t& x : d->i) x = wrap_to(d->dtype, x);
    }
  }

 private:
  void dispatch(const Node& node, const std::vector<const Data*>& in, const std::vector<Data*>& out) {
    const Attributes& a = node.attributes;
    if (is_map(node.op)) return map(node.op, in, *out[0]);
    switch (node.op) {
      case Op::literal: return literal(a.scalar("value"), *out[0]);
      case Op::size: out[0]->i[0] = a.dim("dim").evaluate(symbols_); return;
      case Op::index: {
        auto axis = static_cast<size_t>(a.integer("axis"));
        return each(out[0]->dims, [&](const Index& at, size_t n) { out[0]->i[n] = at[axis]; });
      }
      case Op::view: return view(a.map("map"), *in[0], *out[0]);
      case Op::reshape:
        if (out[0]->numel() != in[0]->numel()) fail(Code::invalid_input, "reshape: {} elements do not make a shape of {}", in[0]->numel(), out[0]->numel());
        out[0]->f = in[0]->f;
        out[0]->i = in[0]->i;
        return;
      case Op::reduce: return reduce(a, *in[0], *out[0]);
      case Op::scan: return scan(a, *in[0], *out[0]);
      case Op::concat: return concat(static_cast<size_t>(a.integer("axis")), in, *out[0]);
      case Op::gather: return gather(a, in, *out[0]);
      case Op::take_along: return take_along(static_cast<size_t>(a.integer("axis")), *in[0], *in[1], *out[0]);
      case Op::scatter: return scatter(a, in, *out[0]);
      case Op::scatter_along: return scatter_along(a, *in[0], *in[1], *in[2], *out[0]);
      case Op::sort: return sort(a, *in[0], a.boolean("descending"), in[0]->dims.empty() ? 1 : in[0]->dims[static_cast<size_t>(a.integer("axis"))], *out[0], *out[1]);
      case Op::topk: return sort(a, *in[0], a.boolean("largest"), a.dim("k").evaluate(symbols_), *out[0], *out[1]);
      case Op::moments: return moments(a.integers("axes"), *in[0], *out[0], *out[1]);
      case Op::update: return update(a.map("map"), *in[0], *in[1], *out[0]);
      case Op::matmul: return matmul(*in[0], *in[1], *out[0]);
      case Op::ragged_matmul: return ragged_matmul(*in[0], *in[1], *in[2], *out[0]);
      case Op::reduce_segments: return reduce_segments(a, in, *out[0]);
      case Op::order_segments: return order_segments(a.boolean("wrap"), *in[0], *out[0], *out[1]);
      case Op::attention: return attention(node, in, *out[0]);
      case Op::lu:
      case Op::solve:
      case Op::inverse:
      case Op::determinant:
      case Op::cholesky:
      case Op::solve_triangular:
      case Op::qr: return evaluate_matrices(node, in, out);
      case Op::fourier:
      case Op::fourier_of_real:
      case Op::fourier_to_real: return evaluate_fourier(node, in, out);
      case Op::grid_sample: return evaluate_grid_sample(a, *in[0], *in[1], *out[0]);
      case Op::external: fail(Code::unsupported, "the reference has no meaning for kernel {}, which is its maker's", a.string("name"));
      default: fail(Code::unsupported, "the reference has no meaning for {}", name_of(node.op));
    }
  }

  static void literal(const Scalar& s, Data& out) { out.set(0, out.floating() ? Element{s.to_double(), 0} : Element{0, s.to_int()}); }

  // Sizes that the graph took for equal may differ at run time; the checks of the graph name them, this only keeps the reading in bounds.
  static void fits(const Data& x, const Index& dims) {
    size_t lead = dims.size() - x.dims.size();
    for (size_t d = 0; d < x.dims.size(); ++d) {
      if (x.dims[d] != 1 && x.dims[d] != dims[lead + d]) fail(Code::invalid_input, "sizes {} and {} of two operands differ", x.dims[d], dims[lead + d]);
    }
  }

  static void map(Op op, const std::vector<const Data*>& in, Data& out) {
    std::array<DType, 3> from{};
    std::array<Element, 3> elements;
    for (size_t k = 0; k < in.size(); ++k) {
      fits(*in[k], out.dims);
      from[k] = in[k]->dtype;
    }
    each(out.dims, [&](const Index& at, size_t n) {
      for (size_t k = 0; k < in.size(); ++k) elements[k] = in[k]->at(static_cast<size_t>(flat_broadcast(at, in[k]->dims)));
      out.set(n, map_element(op, out.dtype, std::span(from).first(in.size()), std::span(elements).first(in.size())));
    });
  }

  Index offsets(const AffineMap& map) {
    Index out;
    for (const AffineMap::Axis& axis : map.axes) out.push_back(axis.offset.evaluate(symbols_));
    return out;
  }

  // Index of the operand, or false when a fill is to be read.
  static bool through(const AffineMap& map, const Index& offsets, const Index& at, const Index& dims, Index& index) {
    for (size_t d = 0; d < map.axes.size(); ++d) {
      int64_t v = offsets[d];
      for (const AffineMap::Term& t : map.axes[d].terms) v += t.coefficient * at[t.axis];
      if (v < 0 || v >= dims[d]) {
        if (map.fill) return false;
        fail(Code::invalid_input, "a view reads index {} of an axis of size {}", v, dims[d]);
      }
      index[d] = v;
    }
    return true;
  }

  void view(const AffineMap& map, const Data& in, Data& out) {
    Index index(in.dims.size()), start = offsets(map);
    each(out.dims, [&](const Index& at, size_t n) {
      if (through(map, start, at, in.dims, index)) {
        out.copy(n, in, static_cast<size_t>(flat(index, in.dims)));
      } else if (out.floating()) {
        out.f[n] = map.fill->to_double();
      } else {
        out.i[n] = map.fill->to_int();
      }
    });
  }

  void update(const AffineMap& map, const Data& base, const Data& value, Data& out) {
    out.f = base.f;
    out.i = base.i;
    Index index(base.dims.size()), start = offsets(map);
    each(value.dims, [&](const Index& at, size_t n) {
      through(map, start, at, base.dims, index);
      out.copy(static_cast<size_t>(flat(index, base.dims)), value, n);
    });
  }

  static double combine(const std::string& kind, double a, double b) {
    if (kind == "sum" || kind == "add") return a + b;
    if (kind == "prod" || kind == "mul") return a * b;
    if (kind == "logsumexp") {
      double m = std::fmax(a, b);
      if (std::isnan(a) || std::isnan(b)) return a + b;
      return std::isinf(m) ? m : m + std::log1p(std::exp(std::fmin(a, b) - m));
    }
    if (kind == "set") return b;
    return float_binary(kind == "max" ? Op::max : Op::min, a, b);
  }
  static int64_t combine(const std::string& kind, int64_t a, int64_t b) {
    if (kind == "sum" || kind == "add") return wrap(static_cast<__int128>(a) + b);
    if (kind == "prod" || kind == "mul") return wrap(static_cast<__int128>(a) * b);
    if (kind == "set") return b;
    if (kind == "any") return a | b;
    if (kind == "all") return a & b;
    if (kind != "max" && kind != "min") fail(Code::unsupported, "{} has no meaning on integers", kind);
    return kind == "max" ? std::max(a, b) : std::min(a, b);
  }

  void reduce(const Attributes& a, const Data& in, Data& out) {
    const std::string& kind = a.string("kind");
    std::vector<int64_t> axes = a.integers("axes");
    bool all = axes.empty(), keep = a.boolean("keep"), arg = kind.starts_with("arg");
    auto reduced = [&](size_t d) { return all || std::count(axes.begin(), axes.end(), static_cast<int64_t>(d)) != 0; };
    size_t n_out = static_cast<size_t>(out.numel());
    std::vector<bool> seen(n_out, false);
    std::vector<size_t> best(n_out, 0);
    double start_f = kind == "prod" ? 1 : kind == "max" ? -INFINITY : kind == "min" ? INFINITY : 0;
    int64_t start_i = kind == "prod" || kind == "all" ? 1 : 0;
    std::fill(out.f.begin(), out.f.end(), start_f);
    std::fill(out.i.begin(), out.i.end(), start_i);
    Index to;
    each(in.dims, [&](const Index& at, size_t n) {
      to.clear();
      for (size_t d = 0; d < at.size(); ++d) {
        if (!reduced(d)) {
          to.push_back(at[d]);
        } else if (keep) {
          to.push_back(0);
        }
      }
      auto o = static_cast<size_t>(flat(to, out.dims));
      if (arg) {
        bool better = !seen[o];
        if (!better && in.floating()) {
          double x = in.f[n], y = in.f[best[o]];
          better = !std::isnan(y) && (std::isnan(x) || (kind == "argmax" ? x > y : x < y));
        } else if (!better) {
          better = kind == "argmax" ? in.i[n] > in.i[best[o]] : in.i[n] < in.i[best[o]];
        }
        if (better) {
          best[o] = n;
          out.i[o] = all ? static_cast<int64_t>(n) : at[static_cast<size_t>(axes[0])];
        }
      } else if (out.floating()) {
        out.f[o] = combine(kind, out.f[o], in.f[n]);
      } else {
        bool first = !seen[o] && (kind == "max" || kind == "min");
        out.i[o] = first ? in.i[n] : combine(kind, out.i[o], in.i[n]);
      }
      seen[o] = true;
    });
  }

  void scan(const Attributes& a, const Data& in, Data& out) {
    const std::string& kind = a.string("kind");
    auto axis = static_cast<size_t>(a.integer("axis"));
    Index before;
    each(out.dims, [&](const Index& at, size_t n) {
      out.copy(n, in, n);
      if (at[axis] == 0) return;
      before = at;
      --before[axis];
      auto p = static_cast<size_t>(flat(before, out.dims));
      if (out.floating()) {
        out.f[n] = combine(kind, out.f[p], in.f[n]);
      } else {
        out.i[n] = combine(kind, out.i[p], in.i[n]);
      }
    });
  }

  void concat(size_t axis, const std::vector<const Data*>& in, Data& out) {
    int64_t start = 0;
    Index to;
    for (const Data* part : in) {
      for (size_t d = 0; d < part->dims.size(); ++d) {
        if (d != axis && part->dims[d] != out.dims[d]) fail(Code::invalid_input, "concat: parts have sizes {} and {} on another axis", part->dims[d], out.dims[d]);
      }
      each(part->dims, [&](const Index& at, size_t n) {
        to = at;
        to[axis] += start;
        out.copy(static_cast<size_t>(flat(to, out.dims)), *part, n);
      });
      start += part->dims[axis];
    }
  }

  // Where element `at` of gather's result is in the table.
  static Index gathered(const Attributes& a, const std::vector<const Data*>& indices, const Index& table, const Index& at) {
    std::vector<int64_t> axes = a.integers("axes");
    auto position = static_cast<size_t>(a.integer("position"));
    size_t index_rank = at.size() - (table.size() - axes.size());
    Index inner(at.begin() + static_cast<int64_t>(position), at.begin() + static_cast<int64_t>(position + index_rank));
    Index out(table.size());
    size_t rest = 0;
    for (size_t d = 0; d < table.size(); ++d) {
      auto found = std::find(axes.begin(), axes.end(), static_cast<int64_t>(d));
      if (found == axes.end()) {
        out[d] = at[rest < position ? rest : rest + index_rank];
        ++rest;
        continue;
      }
      const Data& index = *indices[static_cast<size_t>(found - axes.begin())];
      const int64_t given = index.i[static_cast<size_t>(flat_broadcast(inner, index.dims))], v = given < 0 && wraps(a) ? given + table[d] : given;
      if (v < 0 || v >= table[d]) fail(Code::invalid_input, "index {} is out of range for an axis of size {}", given, table[d]);
      out[d] = v;
    }
    return out;
  }

  void gather(const Attributes& a, const std::vector<const Data*>& in, Data& out) {
    std::vector<const Data*> indices(in.begin() + 1, in.end());
    each(out.dims, [&](const Index& at, size_t n) { out.copy(n, *in[0], static_cast<size_t>(flat(gathered(a, indices, in[0]->dims, at), in[0]->dims))); });
  }

  static void accumulate(const std::string& kind, Data& out, size_t o, const Data& value, size_t n) {
    if (out.floating()) {
      out.f[o] = combine(kind, out.f[o], value.f[n]);
    } else {
      out.i[o] = combine(kind, out.i[o], value.i[n]);
    }
  }

  void scatter(const Attributes& a, const std::vector<const Data*>& in, Data& out) {
    out.f = in[0]->f;
    out.i = in[0]->i;
    std::vector<const Data*> indices(in.begin() + 2, in.end());
    each(in[1]->dims, [&](const Index& at, size_t n) { accumulate(a.string("kind"), out, static_cast<size_t>(flat(gathered(a, indices, out.dims, at), out.dims)), *in[1], n); });
  }

  static int64_t along(const Data& index, size_t n, int64_t size) {
    int64_t v = index.i[n];
    if (v < 0 || v >= size) fail(Code::invalid_input, "index {} is out of range for an axis of size {}", v, size);
    return v;
  }

  void take_along(size_t axis, const Data& table, const Data& index, Data& out) {
    Index from;
    for (size_t d = 0; d < index.dims.size(); ++d) {
      if (d != axis && index.dims[d] > table.dims[d]) fail(Code::invalid_input, "gather: the index is larger than the table");
    }
    each(out.dims, [&](const Index& at, size_t n) {
      from = at;
      from[axis] = along(index, n, table.dims[axis]);
      out.copy(n, table, static_cast<size_t>(flat(from, table.dims)));
    });
  }

  void scatter_along(const Attributes& a, const Data& base, const Data& index, const Data& updates, Data& out) {
    auto axis = static_cast<size_t>(a.integer("axis"));
    out.f = base.f;
    out.i = base.i;
    Index to;
    for (size_t d = 0; d < index.dims.size(); ++d) {
      if (index.dims[d] > updates.dims[d] || (d != axis && index.dims[d] > base.dims[d])) fail(Code::invalid_input, "scatter: the index is larger than base or updates");
    }
    each(index.dims, [&](const Index& at, size_t n) {
      to = at;
      to[axis] = along(index, n, base.dims[axis]);
      accumulate(a.string("kind"), out, static_cast<size_t>(flat(to, base.dims)), updates, static_cast<size_t>(flat(at, updates.dims)));
    });
  }

  void moments(const std::vector<int64_t>& axes, const Data& in, Data& sums, Data& squares) {
    std::vector<int64_t> count(sums.f.size(), 0);
    auto kept = [&](const Index& at) {
      Index to;
      for (size_t d = 0; d < at.size(); ++d) {
        if (std::count(axes.begin(), axes.end(), static_cast<int64_t>(d)) == 0) to.push_back(at[d]);
      }
      return static_cast<size_t>(flat(to, sums.dims));
    };
    each(in.dims, [&](const Index& at, size_t n) {
      sums.f[kept(at)] += in.f[n];
      ++count[kept(at)];
    });
    each(in.dims, [&](const Index& at, size_t n) {
      const size_t k = kept(at);
      const double distance = in.f[n] - sums.f[k] / static_cast<double>(count[k]);
      squares.f[k] += distance * distance;
    });
  }

  // The first k of each line in order; NaN counts as the largest (torch).
  void sort(const Attributes& a, const Data& in, bool descending, int64_t k, Data& values, Data& indices) {
    if (in.dims.empty()) {
      values.copy(0, in, 0);
      return;
    }
    auto axis = static_cast<size_t>(a.integer("axis"));
    if (k < 0 || k > in.dims[axis]) fail(Code::invalid_input, "topk: {} of {} elements", k, in.dims[axis]);
    Index lines = in.dims;
    int64_t length = lines[axis];
    lines[axis] = 1;
    std::vector<int64_t> order(static_cast<size_t>(length));
    each(lines, [&](const Index& at, size_t) {
      Index from = at;
      auto position = [&](int64_t j) {
        from[axis] = j;
        return static_cast<size_t>(flat(from, in.dims));
      };
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
        if (descending) std::swap(i, j);
        if (!in.floating()) return in.i[position(i)] < in.i[position(j)];
        double x = in.f[position(i)], y = in.f[position(j)];
        return std::isnan(y) ? !std::isnan(x) : x < y;
      });
      Index to = at;
      for (int64_t j = 0; j < k; ++j) {
        to[axis] = j;
        auto n = static_cast<size_t>(flat(to, values.dims));
        values.copy(n, in, position(order[static_cast<size_t>(j)]));
        indices.i[n] = order[static_cast<size_t>(j)];
      }
    });
  }

  static Index batch_of(const Index& at) { return Index(at.begin(), at.end() - 2); }
  // Start of the matrix that batch index `batch` broadcasts to.
  static size_t matrix(const Data& x, const Index& batch) {
    Index lead(x.dims.begin(), x.dims.end() - 2);
    return static_cast<size_t>(flat_broadcast(batch, lead) * x.dims[lead.size()] * x.dims[lead.size() + 1]);
  }

  // B is read row by row, as it is in memory. Each element adds its products in the order of K.
  void matmul(const Data& a, const Data& b, Data& out) {
    const size_t m = static_cast<size_t>(out.dims[out.dims.size() - 2]), n = static_cast<size_t>(out.dims.back()), k_size = static_cast<size_t>(a.dims.back());
    if (b.dims[b.dims.size() - 2] != a.dims.back()) fail(Code::invalid_input, "matmul: the inner sizes are {} and {}", a.dims.back(), b.dims[b.dims.size() - 2]);
    if (a.dims[a.dims.size() - 2] != out.dims[out.dims.size() - 2] || b.dims.back() != out.dims.back())
      fail(Code::invalid_input, "matmul: the result has {} rows and {} columns, its operands {} and {}", m, n, a.dims[a.dims.size() - 2], b.dims.back());
    each(batch_of(out.dims), [&](const Index& batch, size_t matrices) {
      const size_t from_a = matrix(a, batch), from_b = matrix(b, batch);
      for (size_t row = 0; row < m; ++row) {
        const size_t to = (matrices * m + row) * n;
        for (size_t k = 0; k < k_size; ++k) {
          const size_t i = from_a + row * k_size + k, j = from_b + k * n;
          if (out.floating()) {
            const double x = a.f[i];
            for (size_t c = 0; c < n; ++c) out.f[to + c] += x * b.f[j + c];
          } else {
            for (size_t c = 0; c < n; ++c) out.i[to + c] = wrap(out.i[to + c] + static_cast<__int128>(a.i[i]) * b.i[j + c]);
          }
        }
      }
    });
  }

  void reduce_segments(const Attributes& a, const std::vector<const Data*>& in, Data& out) {
    const std::string& kind = a.string("kind");
    const bool weighted = a.boolean("weighted");
    const Data &x = *in[0], &order = *in[1], &ends = *in[2];
    const auto width = static_cast<size_t>(out.numel() / std::max<int64_t>(1, out.dims[0]));
    std::fill(out.f.begin(), out.f.end(), kind == "add" ? 0.0 : kind == "mul" ? 1.0 : kind == "min" ? INFINITY : -INFINITY);
    for (size_t segment = 0, k = 0; segment < ends.i.size(); ++segment) {
      if (ends.i[segment] < static_cast<int64_t>(k) || ends.i[segment] > order.dims[0]) fail(Code::invalid_input, "reduce_segments: a segment ends at {}", ends.i[segment]);
      for (; static_cast<int64_t>(k) < ends.i[segment]; ++k) {
        const auto row = static_cast<size_t>(along(order, k, x.dims[0]));
        if (!weighted) {
          for (size_t e = 0; e < width; ++e) accumulate(kind, out, segment * width + e, x, row * width + e);
          continue;
        }
        const auto weight = static_cast<size_t>(along(*in[4], k, in[3]->dims[0]));
        for (size_t e = 0; e < width; ++e) out.f[segment * width + e] += x.f[row * width + e] * in[3]->f[weight * width + e];
      }
    }
    for (size_t e = 0; a.boolean("based") && e < out.f.size(); ++e) accumulate(kind, out, e, *in.back(), e);
  }

  static void order_segments(bool wrap, const Data& index, Data& order, Data& ends) {
    const int64_t count = ends.dims[0];
    std::vector<std::vector<int64_t>> places(static_cast<size_t>(count));
    for (size_t k = 0; k < index.i.size(); ++k) {
      const int64_t at = wrap && index.i[k] < 0 ? index.i[k] + count : index.i[k];
      if (at < 0 || at >= count) fail(Code::invalid_input, "order_segments: index {} for {} segments", index.i[k], count);
      places[static_cast<size_t>(at)].push_back(static_cast<int64_t>(k));
    }
    size_t end = 0;
    for (size_t segment = 0; segment < places.size(); ++segment) {
      for (int64_t k : places[segment]) order.i[end++] = k;
      ends.i[segment] = static_cast<int64_t>(end);
    }
  }

  void ragged_matmul(const Data& a, const Data& b, const Data& ends, Data& out) {
    if (b.dims[1] != a.dims[1] || b.dims[0] != ends.dims[0])
      fail(Code::invalid_input, "ragged_matmul: {} x {} matrices of {} rows, for rows of {} elements and {} ends", b.dims[0], b.dims[2], b.dims[1], a.dims[1], ends.dims[0]);
    const auto k_size = static_cast<size_t>(a.dims[1]), n = static_cast<size_t>(out.dims[1]);
    size_t g = 0;
    for (size_t row = 0; row < static_cast<size_t>(out.dims[0]); ++row) {
      while (g < ends.i.size() && static_cast<int64_t>(row) >= ends.i[g]) ++g;
      if (g == ends.i.size()) return;
      for (size_t k = 0; k < k_size; ++k) {
        const size_t i = row * k_size + k, j = (g * k_size + k) * n;
        for (size_t c = 0; c < n; ++c) {
          if (out.floating()) {
            out.f[row * n + c] += a.f[i] * b.f[j + c];
          } else {
            out.i[row * n + c] = wrap(out.i[row * n + c] + static_cast<__int128>(a.i[i]) * b.i[j + c]);
          }
        }
      }
    }
  }

  void attention(const Node& node, const std::vector<const Data*>& in, Data& out) {
    const Attributes& a = node.attributes;
    const AttentionInputs of = attention_inputs(node);
    const Data *mask = of.mask == none_id ? nullptr : in[3], *filled = of.filled == none_id ? nullptr : in.back();
    const Data &q = *in[0], &k = *in[1], &v = *in[2];
    double scale = a.number("scale");
    bool causal = a.boolean("causal");
    int64_t depth = q.dims.back(), length = k.dims[k.dims.size() - 2], width = v.dims.back();
    if (k.dims.back() != depth || v.dims[v.dims.size() - 2] != length) fail(Code::invalid_input, "attention: the sizes of query, key and value do not fit");
    Index rows(out.dims.begin(), out.dims.end() - 1);
    std::vector<double> score(static_cast<size_t>(length));
    each(rows, [&](const Index& at, size_t row) {
      Index batch(at.begin(), at.end() - 1);
      int64_t s = at.back();
      size_t q0 = matrix(q, batch) + static_cast<size_t>(s * depth), k0 = matrix(k, batch), v0 = matrix(v, batch);
      double largest = -INFINITY;
      const int64_t keys = filled == nullptr ? length : filled->i[static_cast<size_t>(at[0])];
      if (keys < 0 || keys > length) fail(Code::invalid_input, "attention: {} of {} keys", keys, length);
      const int64_t last = filled == nullptr ? s : keys - q.dims[q.dims.size() - 2] + s;  // of a causal query's keys
      for (int64_t t = 0; t < length; ++t) {
        double sum = 0;
        for (int64_t d = 0; d < depth; ++d) sum += q.f[q0 + static_cast<size_t>(d)] * k.f[k0 + static_cast<size_t>(t * depth + d)];
        sum *= scale;
        if (t >= keys || (causal && t > last)) sum = -INFINITY;
        if (mask != nullptr) {
          Index place = at;
          place.push_back(t);
          auto m = static_cast<size_t>(flat_broadcast(place, mask->dims));
          if (mask->floating()) {
            sum += mask->f[m];
          } else if (mask->i[m] == 0) {
            sum = -INFINITY;
          }
        }
        score[static_cast<size_t>(t)] = sum;
        largest = std::isnan(sum) ? sum : std::max(largest, sum);
      }
      double total = 0;
      // A row without any key gives zeros, as torch's attention does.
      for (double& x : score) total += x = largest == -INFINITY ? 0 : std::exp(x - largest);
      const std::span<double> result(out.f.data() + row * static_cast<size_t>(width), static_cast<size_t>(width));
      if (total == 0) return;  // zeros
      for (size_t t = 0; t < score.size(); ++t) {
        for (size_t e = 0; e < result.size(); ++e) result[e] += score[t] * v.f[v0 + t * result.size() + e];
      }
      for (double& x : result) x /= total;
    });
  }

  const Graph& g_;
  std::span<const int64_t> symbols_;
  std::vector<Data>& values_;
};

}  // namespace

Index sizes_of(const Dims& dims, std::span<const int64_t> symbols) {
  Index out;
  int64_t total = 1;
  for (const Dim& d : dims) {
    int64_t size = d.evaluate(symbols);
    if (size < 0) fail(Code::invalid_input, "a size is negative: {}", size);
    if (size > 0 && total > (int64_t{1} << 40) / size) fail(Code::out_of_memory, "a value has more than 2^40 elements");
    if (size > 0) total *= size;
    out.push_back(size);
  }
  return out;
}

void evaluate_node(const Graph& g, const Node& node, std::span<const int64_t> symbols, std::vector<Data>& values) { Evaluator(g, symbols, values).run(node); }

}  // namespace ingot::ir
