#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "backend/reference/run/scalar.h"
#include "base/error.h"
#include "kernels/run/elements.h"

namespace ingot::backend::reference {

using ir::DType;

Element read(DType t, const std::byte* from) {
  Element v;
  kernels::with_element(t, [&](auto element) {
    using E = decltype(element);
    if constexpr (std::is_same_v<typename E::Number, double>) {
      v.f = E::get(from);
    } else {
      v.i = E::get(from);
    }
  });
  return v;
}

void coordinates(int64_t n, std::span<const int64_t> extents, std::span<int64_t> at) {
  for (size_t d = extents.size(); d-- > 0;) {
    at[d] = n % extents[d];
    n /= extents[d];
  }
}

uint32_t Body::stages() const {
  uint32_t count = 1;
  for (size_t k = 0; k < code.size(); ++k) count = std::max(count, stage[k] + (code[k].kind == Kind::reduce ? 2 : 1));
  return count;
}

// `empty`: the row has no elements, so operands that vary along the row must not be read.
Element Evaluator::load(const Instruction& i, std::span<const int64_t> at, bool empty) const {
  const TensorRef& t = operands_[i.operand];
  const std::vector<int64_t>& strides = b_.strides[i.operand];
  const size_t rank = body_.rank();
  int64_t offset = 0;
  if (empty && std::find(t.dims, t.dims + t.rank, 0) != t.dims + t.rank) {
    for (int d = 0; d < t.rank; ++d) {
      if (t.dims[d] == 0 && strides[static_cast<size_t>(d)] != 0) return {};
    }
  }
  for (size_t d = 0; d < rank; ++d) {
    int64_t c = at[d];
    if (!i.lower.empty()) {
      c = c * (i.step.empty() ? 1 : b_.sizes[i.step[d]]) - b_.sizes[i.lower[d]];
      if (c < 0 || c >= t.dims[d]) return rounded(i.dtype, {i.number, i.integer});
    }
    offset += c * strides[d];
  }
  for (size_t k = 0; k < i.in.size(); ++k) {
    const int64_t v = values_[i.in[k]].i, extent = t.dims[rank + k];
    if (v < 0 || v >= extent) fail(Code::invalid_input, "index {} is out of range for an axis of size {}", v, extent);
    offset += v * strides[rank + k];
  }
  return read(t.dtype, kernels::element(t, offset));
}

void Evaluator::compute(uint32_t stage, std::span<const int64_t> at, bool empty) {
  for (size_t k = 0; k < body_.code.size(); ++k) {
    const Instruction& i = body_.code[k];
    if (body_.stage[k] > stage) continue;
    switch (i.kind) {
      case Kind::reduce: break;
      case Kind::load: values_[k] = {load(i, at, empty)}; break;
      case Kind::accumulator: values_[k] = {rounded(i.dtype, accumulator_)}; break;
      case Kind::literal: values_[k] = {rounded(i.dtype, {i.number, i.integer})}; break;
      case Kind::size: values_[k] = {{0, b_.sizes[i.size]}}; break;
      case Kind::index: values_[k] = {{0, at[i.axis]}}; break;
      case Kind::map: {
        std::array<Element, 3> in;
        std::array<DType, 3> from{};
        for (size_t n = 0; n < i.in.size(); ++n) {
          in[n] = values_[i.in[n]];
          from[n] = body_.code[i.in[n]].dtype;
        }
        values_[k] = {map(i.op, i.dtype, std::span(from).first(i.in.size()), std::span(in).first(i.in.size()))};
      }
    }
  }
}

// Adds an element of the row to a reduction.
void Evaluator::accumulate(size_t k, int64_t position) {
  const Instruction& i = body_.code[k];
  const Value& x = values_[i.in[0]];
  Value& v = values_[k];
  const bool floating = is_float(body_.code[i.in[0]].dtype), up = i.reduction == Reduction::max || i.reduction == Reduction::argmax;
  auto wins = [&] { return !v.started || (floating ? !std::isnan(v.f) && (std::isnan(x.f) || (up ? x.f > v.f : x.f < v.f)) : up ? x.i > v.i : x.i < v.i); };
  switch (i.reduction) {
    case Reduction::sum:
      v.f += x.f;
      v.i = static_cast<int64_t>(static_cast<uint64_t>(v.i) + static_cast<uint64_t>(x.i));
      break;
    case Reduction::prod:
      v.f *= x.f;
      v.i = static_cast<int64_t>(static_cast<uint64_t>(v.i) * static_cast<uint64_t>(x.i));
      break;
    case Reduction::any: v.i |= x.i; break;
    case Reduction::all: v.i &= x.i; break;
    default:
      if (wins()) v = {{x.f, x.i}, true, position};
      return;
  }
  v.started = true;
}

void Evaluator::row(int64_t row) {
  std::array<int64_t, kernels::max_rank> place{};
  const std::span at(place.data(), body_.rank());
  const std::span<const int64_t> domain(b_.domain);
  coordinates(row, domain.first(body_.outer), at.first(body_.outer));
  const uint32_t stages = body_.stages();
  for (uint32_t stage = 0; stage + 1 < stages; ++stage) {
    auto reduces = [&](size_t k) { return body_.code[k].kind == Kind::reduce && body_.stage[k] == stage; };
    for (size_t k = 0; k < body_.code.size(); ++k) {
      if (reduces(k)) begin(k);
    }
    for (int64_t e = 0; e < b_.length; ++e) {
      coordinates(e, domain.last(body_.row), at.last(body_.row));
      compute(stage, at);
      for (size_t k = 0; k < body_.code.size(); ++k) {
        if (reduces(k)) accumulate(k, e);
      }
    }
    for (size_t k = 0; k < body_.code.size(); ++k) {
      if (reduces(k)) finish(k);
    }
  }
  for (int64_t e = 0; e < std::max<int64_t>(b_.length, 1); ++e) {
    const bool empty = b_.length == 0;
    if (!empty) coordinates(e, domain.last(body_.row), at.last(body_.row));
    if (empty) std::fill(at.begin() + body_.outer, at.end(), 0);
    compute(stages, at, empty);
    for (const Store& s : body_.stores) {
      if (once(s) ? e == 0 : !empty) put(s, at);
    }
  }
}

void Evaluator::begin(size_t k) {
  const Reduction r = body_.code[k].reduction;
  values_[k] = {};
  if (r == Reduction::prod) values_[k] = {{1, 1}};
  if (r == Reduction::all) values_[k].i = 1;
}

void Evaluator::finish(size_t k) {
  const Instruction& i = body_.code[k];
  Value v = values_[k];
  const double infinity = std::numeric_limits<double>::infinity();
  if (i.reduction >= Reduction::argmax) v.i = v.position;
  if (!v.started && i.reduction == Reduction::max) v.f = -infinity;
  if (!v.started && i.reduction == Reduction::min) v.f = infinity;
  values_[k] = {rounded(i.dtype, v)};
}

bool Evaluator::once(const Store& s) const {
  const TensorRef& t = operands_[s.operand];
  for (size_t a = body_.outer; a < body_.rank(); ++a) {
    if (t.dims[a] != 1) return false;
  }
  return true;
}

void Evaluator::put(const Store& s, std::span<const int64_t> at) {
  const TensorRef& t = operands_[s.operand];
  int64_t offset = 0;
  for (size_t d = 0; d < body_.rank(); ++d) offset += at[d] * b_.strides[s.operand][d];
  kernels::with_element(t.dtype, [&](auto element) {
    using E = decltype(element);
    const Value& v = values_[s.value];
    if constexpr (std::is_same_v<typename E::Number, double>) {
      E::put(kernels::element(t, offset), v.f);
    } else {
      E::put(kernels::element(t, offset), v.i);
    }
  });
}

Element Evaluator::element(std::span<const int64_t> at, const Element& accumulator) {
  accumulator_ = accumulator;
  compute(0, at);
  return values_[body_.stores[0].value];
}

void Evaluator::store(std::span<const int64_t> at) {
  for (const Store& s : body_.stores) put(s, at);
}

}  // namespace ingot::backend::reference
