// The "matmul" step. Operands: A, B [batch.., K, N], the scales and the zeros of B's blocks [K / group, N], the row ends of experts [experts], then the body's over
// [batch.., M, N]. A is [batch.., M, K], or any tensor read through a map from the indices batch.., m.., k... With row ends, B, its scales and its zeros have an axis of
// experts in front. Sizes: with a map the indices' extents and the offsets along A's axes; then the body's.
#include "backend/reference/kernels/matmul/run/matmul_args.h"
#include "backend/reference/run/sums.h"
#include "base/error.h"

namespace ingot::kernels {

namespace {

using namespace backend::reference;

struct Constants {
  MatmulConstants args;
  Body body;
  MapSteps map() const { return {args.rank, size_t{args.batch} + args.m + args.k, args.steps}; }
};

std::shared_ptr<const void> load(std::span<const std::byte> bytes, size_t operands, size_t sizes) {
  auto c = std::make_shared<Constants>();
  FieldReader from{bytes, "the constants of a matmul step"};
  matmul_fields(from, c->args);
  const MatmulConstants& a = c->args;
  const bool plain = a.rank == 0 && a.batch == 0;  // scales and experts are for these
  const bool extras = a.group >= 0 && a.zeros <= 1 && a.ragged <= 1 && (a.zeros == 0 || a.group > 0) && ((a.group == 0 && a.ragged == 0) || plain);
  const bool good = extras && a.batch <= max_rank && a.m >= 1 && a.m <= max_rank && a.k >= 1 && a.k <= max_rank && (a.rank > 0 || (a.m == 1 && a.k == 1));
  c->body = read_sums(from, "matmul", good, c->map(), a.batch + size_t{2}, a.roles(), operands, sizes);
  return c;
}

[[noreturn]] void refuse(const char* what) { fail(Code::format, "matmul: {}", what); }

// Scales or zeros: [experts.., K / group, N] like B.
void check_blocks(const TensorRef& x, const TensorRef& b, int64_t group) {
  bool fits = x.rank == b.rank && !is_complex(x.dtype);
  for (int d = 0; fits && d < b.rank; ++d) fits = d + 2 == b.rank ? b.dims[d] % group == 0 && x.dims[d] == b.dims[d] / group : x.dims[d] == b.dims[d];
  if (!fits) refuse("scales or zeros do not fit B");
}

Resolved resolve(const Call& call) {
  const auto& c = *static_cast<const Constants*>(call.constants);
  auto s = std::make_shared<Sums>();
  s->roles = c.args.roles();
  const TensorRef &a = *find(*s, call.operands, Role::a), &b = *find(*s, call.operands, Role::b);
  const TensorRef *scale = find(*s, call.operands, Role::scale), *zero = find(*s, call.operands, Role::zero), *row_ends = find(*s, call.operands, Role::row_ends);
  s->body = bind(c.body, call.operands.subspan(s->roles.size()), call.sizes.subspan(c.map().sizes()));
  const size_t batch = c.args.batch, m = c.args.m, k = c.args.k, of_k = batch + c.args.ragged, of_n = of_k + 1;  // axes of B
  if (b.rank != static_cast<int>(of_n + 1)) refuse("B does not have its rank");
  if (c.args.rank == 0 ? a.rank != static_cast<int>(batch + 2) : a.rank != static_cast<int>(c.args.rank)) refuse("A does not have its rank");
  for (const TensorRef* blocks : {scale, zero}) {
    if (blocks != nullptr) check_blocks(*blocks, b, c.args.group);
  }
  if (row_ends != nullptr && (row_ends->rank != 1 || row_ends->dims[0] != b.dims[0] || (row_ends->dtype != ir::DType::i32 && row_ends->dtype != ir::DType::i64)))
    refuse("the row ends are not one integer for each expert");
  auto in_b = [&](size_t axis) { return InB{b.strides[axis], scale == nullptr ? 0 : scale->strides[axis], zero == nullptr ? 0 : zero->strides[axis]}; };
  if (row_ends != nullptr) s->expert = in_b(0);
  s->map = c.args.rank == 0 ? straight(a) : resolve_index_map("matmul", c.args.steps, a, call.sizes.first(c.map().sizes()));
  const std::vector<IndexMap::Index>& indices = s->map.indices;
  for (size_t i = 0; i < batch; ++i) {
    if (indices[i].extent != b.dims[i]) refuse("A and B have different batches");
    s->kept.push_back({{indices[i], {.number = b.strides[i]}}});
  }
  std::vector<SumIndex>& rows = s->kept.emplace_back();
  for (size_t i = 0; i < m; ++i) rows.push_back({indices[batch + i]});
  IndexMap::Index column;
  column.extent = b.dims[of_n];
  s->kept.push_back({{column, in_b(of_n)}});
  int64_t step = b.strides[of_k], length = 1;
  for (size_t i = k; i-- > 0;) {
    const IndexMap::Index& index = indices[batch + m + i];
    s->summed.insert(s->summed.begin(), {index, {.number = step}});
    if (__builtin_mul_overflow(length, index.extent, &length) || __builtin_mul_overflow(step, index.extent, &step)) refuse("K is impossible");
  }
  if (length != b.dims[of_k]) refuse("A and B have different K");
  if (c.args.group > 0) {  // K is a number of groups, and elements in each
    SumIndex group = s->summed[0];
    group.a.extent /= c.args.group;
    group.a.step *= static_cast<uint64_t>(c.args.group);
    group.b = {group.b.number * c.args.group, in_b(of_k).scale, in_b(of_k).zero};
    s->summed[0].a.extent = c.args.group;
    s->summed.insert(s->summed.begin(), group);
  }
  return resolve_sums(std::move(s), call);
}

}  // namespace

std::span<const RunKernel> matmul_reference_kernels() {
  static constexpr RunKernel list[] = {{"matmul", load, resolve, run_sums}};
  return list;
}

}  // namespace ingot::kernels
