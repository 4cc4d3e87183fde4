#include "backend/reference/run/sums.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "kernels/run/elements.h"

namespace ingot::backend::reference {

namespace {

using Position = IndexMap::Position;

bool inside(const IndexMap& map, const Position& at) {
  for (int b = 0; b < map.axes; ++b) {
    if (at.along[b] < 0 || at.along[b] >= map.size[b]) return false;
  }
  return true;
}

struct Factors {
  const TensorRef *a, *b, *scale, *zero;
};

double number(const TensorRef& t, int64_t at) {
  const Element x = read(t.dtype, kernels::element(t, at));
  return is_float(t.dtype) ? x.f : static_cast<double>(x.i);
}

// Sums over all values of the summed indices from `level` on.
void add(const Sums& s, const Factors& f, size_t level, Position at, InB in_b, Element& sum) {
  if (level == s.summed.size()) {
    if (!inside(s.map, at)) return;
    const Element x = read(f.a->dtype, kernels::element(*f.a, static_cast<int64_t>(at.offset))), y = read(f.b->dtype, kernels::element(*f.b, in_b.number));
    if (s.floating) {
      double factor = s.encoded ? static_cast<double>(y.i) : y.f;
      if (f.zero != nullptr) factor -= number(*f.zero, in_b.zero);
      if (f.scale != nullptr) factor *= number(*f.scale, in_b.scale);
      sum.f += x.f * factor;
    } else {
      sum.i = static_cast<int64_t>(static_cast<uint64_t>(sum.i) + static_cast<uint64_t>(x.i) * static_cast<uint64_t>(y.i));
    }
    return;
  }
  const SumIndex& index = s.summed[level];
  for (int64_t n = 0; n < index.a.extent; ++n) {
    add(s, f, level + 1, at, in_b, sum);
    at.move(index.a, 1, s.map.axes);
    in_b += index.b;
  }
}

// The expert whose rows end after this one; that of rows after all ends is their number.
int64_t expert_of(const TensorRef& row_ends, int64_t row) {
  int64_t e = 0;
  while (e < row_ends.dims[0] && row >= read(row_ends.dtype, kernels::element(row_ends, e * row_ends.strides[0])).i) ++e;
  return e;
}

}  // namespace

Body read_sums(FieldReader& from, const char* step, bool good, const MapSteps& map, size_t domain, std::span<const kernels::Role> roles, size_t operands, size_t sizes) {
  good = good && map.rank <= IndexMap::max_axes && map.steps.size() == map.rank * map.indices;
  good = good && std::all_of(map.steps.begin(), map.steps.end(), [](int64_t s) { return s >= 0 && s <= INT32_MAX; });
  if (!good || operands <= roles.size() || sizes < map.sizes()) fail(Code::format, "the constants of a {} step are damaged", step);
  Body body = read_body(from, operands - roles.size(), sizes - map.sizes(), Stores::memory);
  if (body.rank() != domain) fail(Code::format, "the body of a {} step has another domain", step);
  return body;
}

const TensorRef* find(const Sums& s, std::span<const TensorRef> operands, kernels::Role role) {
  const kernels::OperandRange range = kernels::range_of(s.roles, role);
  return range.count == 0 ? nullptr : &operands[range.first];
}

IndexMap straight(const TensorRef& a) {
  IndexMap map;
  for (int d = 0; d < a.rank; ++d) map.indices.push_back({a.dims[d], static_cast<uint64_t>(a.strides[d]), {}});
  return map;
}

kernels::Resolved resolve_sums(std::shared_ptr<Sums> s, const kernels::Call& call) {
  const TensorRef &a = *find(*s, call.operands, kernels::Role::a), &b = *find(*s, call.operands, kernels::Role::b);
  s->encoded = is_float(a.dtype) && (b.dtype == ir::DType::i8 || b.dtype == ir::DType::u8);
  const bool decoded = is_float(a.dtype) && b.dtype == ir::DType::f32;
  if ((a.dtype != b.dtype && !s->encoded && !decoded) || is_complex(a.dtype)) fail(Code::format, "the factors of a step are {} and {}", ir::name_of(a.dtype), ir::name_of(b.dtype));
  s->floating = is_float(a.dtype);
  for (const Instruction& i : s->body.body->code) {
    if (i.kind == Kind::accumulator && is_float(i.dtype) != s->floating) fail(Code::format, "the body of a step takes sums of another type");
    if (i.kind == Kind::reduce) fail(Code::format, "the body after sums has a reduction");
  }
  for (size_t d = 0; d < s->kept.size(); ++d) {
    int64_t count = 1;
    for (const SumIndex& i : s->kept[d]) {
      if (i.a.extent < 0 || __builtin_mul_overflow(count, i.a.extent, &count)) fail(Code::format, "a step has an impossible index");
    }
    if (count != s->body.domain[d]) fail(Code::format, "the indices of a step count {} elements, its body {}", count, s->body.domain[d]);
  }
  s->per_worker = (s->body.body->code.size() * sizeof(Value) + 63) / 64 * 64;
  const size_t scratch = static_cast<size_t>(call.workers->count()) * s->per_worker;
  return {scratch, std::move(s)};
}

void run_sums(const kernels::Call& call) {
  const auto& s = *static_cast<const Sums*>(call.prepared);
  auto operand = [&](kernels::Role role) { return find(s, call.operands, role); };
  const Factors factors{operand(kernels::Role::a), operand(kernels::Role::b), operand(kernels::Role::scale), operand(kernels::Role::zero)};
  const TensorRef* row_ends = operand(kernels::Role::row_ends);
  const int64_t rows = s.body.rows;
  if (s.body.length == 0) return;
  const int64_t tasks = std::min<int64_t>(rows, 64);
  call.workers->run(tasks, [&](int64_t task, int worker) {
    Evaluator body(s.body, call.operands.subspan(s.roles.size()), reinterpret_cast<Value*>(call.scratch + static_cast<size_t>(worker) * s.per_worker));
    std::array<int64_t, kernels::max_rank> place{};
    const std::span at(place.data(), s.body.domain.size());
    for (int64_t n = rows * task / tasks * s.body.length, end = rows * (task + 1) / tasks * s.body.length; n < end; ++n) {
      coordinates(n, s.body.domain, at);
      Position start = s.map.start;
      InB in_b;
      for (size_t d = 0; d < at.size(); ++d) {
        int64_t rest = at[d];
        for (size_t k = s.kept[d].size(); k-- > 0; rest /= s.kept[d][k].a.extent) {
          const SumIndex& index = s.kept[d][k];
          start.move(index.a, rest % index.a.extent, s.map.axes);
          in_b += index.b * (rest % index.a.extent);
        }
      }
      Element sum;
      const int64_t expert = row_ends == nullptr ? 0 : expert_of(*row_ends, at[0]);
      in_b += s.expert * expert;
      if (row_ends == nullptr || expert < row_ends->dims[0]) add(s, factors, 0, start, in_b, sum);
      body.element(at, sum);
      body.store(at);
    }
  });
}

}  // namespace ingot::backend::reference
