#include "lower/affine.h"

#include <algorithm>

namespace ingot::lower {

using ir::DType;

bool Affine::constant() const {
  return std::all_of(steps.begin(), steps.end(), [](int64_t s) { return s == 0; });
}

Affine AffineForms::widened(const Affine& f, size_t rank) {
  Affine w{f.offset, std::vector<int64_t>(rank - f.steps.size(), 0)};
  w.steps.insert(w.steps.end(), f.steps.begin(), f.steps.end());
  return w;
}

Affine AffineForms::difference(const Affine& a, const Affine& b) {
  size_t rank = std::max(a.steps.size(), b.steps.size());
  Affine x = widened(a, rank), y = widened(b, rank);
  x.offset = x.offset - y.offset;
  for (size_t i = 0; i < rank; ++i) x.steps[i] -= y.steps[i];
  return x;
}

namespace {

Dim extreme(const Affine& f, const Dims& dims, bool greatest) {
  Dim v = f.offset;
  for (size_t i = 0; i < f.steps.size(); ++i) {
    if (f.steps[i] != 0 && (f.steps[i] > 0) == greatest) v += Dim(f.steps[i]) * (dims[i] - Dim(1));
  }
  return v;
}

// Larger numbers do not come from indices, and would overflow.
bool sane(const Affine& f) {
  auto c = f.offset.constant();
  if (c && (*c > (int64_t{1} << 40) || *c < -(int64_t{1} << 40))) return false;
  return std::all_of(f.steps.begin(), f.steps.end(), [](int64_t s) { return s < (int64_t{1} << 40) && s > -(int64_t{1} << 40); });
}

}  // namespace

Dim AffineForms::least(const Affine& f, const Dims& dims) { return extreme(f, dims, false); }
Dim AffineForms::greatest(const Affine& f, const Dims& dims) { return extreme(f, dims, true); }

std::optional<Affine> AffineForms::of(ValueId v, int depth) {
  if (g_.type(v).dtype != DType::i64 || depth > 64) return std::nullopt;
  if (auto known = known_.find(v); known != known_.end()) return known->second;
  std::optional<Affine> f = find(maker(g_, v), v, depth + 1);
  if (f) {
    // An axis of size 1 has only index 0.
    for (size_t i = 0; i < f->steps.size(); ++i) {
      if (g_.type(v).dims[i] == Dim(1)) f->steps[i] = 0;
    }
    if (!sane(*f)) f.reset();
  }
  known_[v] = f;
  return f;
}

std::optional<Affine> AffineForms::find(const Node& n, ValueId v, int depth) {
  size_t rank = g_.type(v).dims.size();
  Affine zero{0, std::vector<int64_t>(rank, 0)};
  switch (n.op) {
    case Op::literal: {
      ir::Scalar s = n.attributes.scalar("value");
      if (auto* d = std::get_if<Dim>(&s.value)) {
        zero.offset = *d;
      } else {
        zero.offset = s.to_int();
      }
      return zero;
    }
    case Op::size: zero.offset = n.attributes.dim("dim"); return zero;
    case Op::index: zero.steps[static_cast<size_t>(n.attributes.integer("axis"))] = 1; return zero;
    case Op::view: {
      const ir::AffineMap& map = n.attributes.map("map");
      auto f = of(n.in[0], depth);
      if (!f || map.fill) return std::nullopt;
      zero.offset = f->offset;
      for (size_t a = 0; a < map.axes.size(); ++a) {
        if (f->steps[a] == 0) continue;
        zero.offset += Dim(f->steps[a]) * map.axes[a].offset;
        for (const auto& t : map.axes[a].terms) zero.steps[t.axis] += f->steps[a] * t.coefficient;
      }
      return zero;
    }
    case Op::add:
    case Op::sub: {
      auto a = of(n.in[0], depth), b = of(n.in[1], depth);
      if (!a || !b) return std::nullopt;
      if (n.op == Op::add) {
        b->offset = -b->offset;
        for (int64_t& s : b->steps) s = -s;
      }
      return widened(difference(*a, *b), rank);
    }
    case Op::neg: {
      auto a = of(n.in[0], depth);
      if (!a) return std::nullopt;
      return difference(zero, *a);
    }
    case Op::mul: {
      auto a = of(n.in[0], depth), b = of(n.in[1], depth);
      if (!a || !b) return std::nullopt;
      if (!b->constant() || !b->offset.is_constant()) std::swap(a, b);
      if (!b->constant() || !b->offset.is_constant()) return std::nullopt;
      int64_t k = b->offset.value();
      if (k > (1 << 20) || k < -(1 << 20)) return std::nullopt;
      Affine out = widened(*a, rank);
      out.offset = out.offset * Dim(k);
      for (int64_t& s : out.steps) s *= k;
      return out;
    }
    case Op::cast: {
      auto number = number_of(g_, n.in[0]);
      if (!number || number->is_float()) return std::nullopt;
      if (auto* d = std::get_if<Dim>(&number->value)) {
        zero.offset = *d;
      } else {
        zero.offset = number->to_int();
      }
      return zero;
    }
    case Op::concat: return concat(n, depth);
    case Op::scan: {
      auto a = of(n.in[0], depth);
      // A running sum of zeros.
      if (a && n.attributes.string("kind") == "sum" && a->constant() && a->offset == Dim(0)) return a;
      return std::nullopt;
    }
    default: return std::nullopt;
  }
}

// A concatenation whose parts continue one another: [-1] and 0, 1, 2... is i - 1.
std::optional<Affine> AffineForms::concat(const Node& n, int depth) {
  auto axis = static_cast<size_t>(n.attributes.integer("axis"));
  std::vector<Affine> parts;
  std::vector<Dim> sizes;
  for (ValueId p : n.in) {
    auto f = of(p, depth);
    if (!f) return std::nullopt;
    parts.push_back(*f);
    sizes.push_back(g_.type(p).dims[axis]);
  }
  std::optional<int64_t> step;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!(sizes[i] == Dim(1))) step = parts[i].steps[axis];
  }
  if (!step) {
    auto c = (parts[1].offset - parts[0].offset).constant();
    if (!c) return std::nullopt;
    step = *c;
  }
  Affine whole = parts[0];
  whole.steps[axis] = *step;
  Dim start = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    Affine expected = whole;
    expected.offset = whole.offset + Dim(*step) * start;
    if (sizes[i] == Dim(1)) expected.steps[axis] = 0;
    if (!(parts[i] == expected)) return std::nullopt;
    start += sizes[i];
  }
  return whole;
}

std::optional<Affine> at_most_zero(AffineForms& forms, const Graph& g, const Node& n) {
  if (n.op != Op::le && n.op != Op::lt && n.op != Op::ge && n.op != Op::gt) return std::nullopt;
  auto a = forms.of(n.in[0]), b = forms.of(n.in[1]);
  if (!a || !b) return std::nullopt;
  bool less = n.op == Op::le || n.op == Op::lt, strict = n.op == Op::lt || n.op == Op::gt;
  Affine d = AffineForms::widened(less ? AffineForms::difference(*a, *b) : AffineForms::difference(*b, *a), g.type(n.out[0]).dims.size());
  if (strict) d.offset = d.offset + Dim(1);
  return d;
}

}  // namespace ingot::lower
