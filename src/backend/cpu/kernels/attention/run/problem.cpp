#include "backend/cpu/kernels/attention/run/problem.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "backend/cpu/kernels/attention/run/tuning.h"
#include "base/error.h"
#include "kernels/attention/run/filled.h"
#include "kernels/fused/run/fused_args.h"

namespace ingot::kernels::attention {

using ir::DType;

namespace {

std::shared_ptr<const void> loaded(std::span<const std::byte> bytes, size_t operands, size_t sizes, bool paged, bool scaled) {
  AttentionArgs args = parse_attention(bytes);
  const size_t others = attention_roles.size() + args.filled + paged + 2 * size_t{scaled} + 1;
  if (operands < others || sizes < 4) fail(Code::format, "an attention step has {} operands and {} sizes", operands, sizes);
  auto c = std::make_shared<Constants>();
  c->scale = args.scale;
  c->causal = args.causal;
  c->filled = args.filled;
  c->paged = paged;
  c->scaled = scaled;
  c->in_order = args.in_order;
  c->batch_rank = args.batch_rank;
  if (c->batch_rank + 2 > static_cast<int>(max_domain_rank) || (c->filled && c->batch_rank == 0) || (paged && !c->filled))
    fail(Code::format, "an attention step has batch rank {}", c->batch_rank);
  if (!args.mask.empty()) {
    c->mask = load_program(args.mask, operands - others, sizes - 4, false);
    bool fits = c->mask->domain_rank == c->batch_rank + 2 && c->mask->row_rank == 1 && !c->mask->has_reductions;
    if (!fits) fail(Code::format, "an attention step's mask has another domain");
  } else if (operands != others) {
    fail(Code::format, "an attention step without a mask has {} operands", operands);
  }
  return c;
}

// The sizes of a page and of the block table.
void check_pages(const Call& call, const Constants& c, Problem& p) {
  const TensorRef &k = call.operands[1], &v = call.operands[2], &table = call.operands[call.operands.size() - 3];
  p.page = k.dims[c.batch_rank];
  int64_t keys = 0;
  const bool fits = table.rank == 2 && table.dims[0] == call.operands[0].dims[0] && table.dtype == DType::i64 && k.dims[0] == v.dims[0] && p.page > 0 &&
                    !__builtin_mul_overflow(p.page, table.dims[1], &keys) && keys == p.t;
  if (!fits) fail(Code::format, "attention: the block table does not fit the pages");
  p.page_bits = std::countr_zero(static_cast<uint64_t>(p.page));
  if (p.page % tuning::rows_of_group != 0 || !std::has_single_bit(static_cast<uint64_t>(p.page)) || call.operands[0].dtype == DType::f64)
    fail(Code::format, "attention: no kernel reads pages of {} keys of {}", p.page, ir::name_of(k.dtype));
  const bool known = c.scaled ? k.dtype == DType::i8 : ir::is_float(k.dtype) && k.dtype != DType::f64;
  if (!known || v.dtype != k.dtype) fail(Code::format, "attention: pages of {} and {}", ir::name_of(k.dtype), ir::name_of(v.dtype));
}

// A number for each row of the pages of keys, and of values.
void check_scales(const Call& call, const Constants& c) {
  for (size_t i : {0, 1}) {
    const TensorRef &x = call.operands[call.operands.size() - 5 + i], &rows = call.operands[1 + i];
    bool fits = x.rank == rows.rank && ir::is_float(x.dtype) && x.dtype != DType::f64 && x.dims[c.batch_rank + 1] == 1;
    for (int axis = 0; fits && axis <= c.batch_rank; ++axis) fits = x.dims[axis] == rows.dims[axis];
    if (!fits) fail(Code::format, "attention: the scales do not fit the pages");
  }
}

}  // namespace

std::shared_ptr<const void> load(std::span<const std::byte> bytes, size_t operands, size_t sizes) { return loaded(bytes, operands, sizes, false, false); }
std::shared_ptr<const void> load_paged(std::span<const std::byte> bytes, size_t operands, size_t sizes) { return loaded(bytes, operands, sizes, true, false); }
std::shared_ptr<const void> load_scaled(std::span<const std::byte> bytes, size_t operands, size_t sizes) { return loaded(bytes, operands, sizes, true, true); }

Problem checked(const Call& call) {
  const auto& c = *static_cast<const Constants*>(call.constants);
  Problem p;
  p.s = call.sizes[0];
  p.t = call.sizes[1];
  p.d = call.sizes[2];
  p.e = call.sizes[3];
  if (p.s < 0 || p.t < 0 || p.d < 0 || p.e < 0) fail(Code::format, "attention: a negative size");
  const TensorRef* parts[] = {&call.operands[0], &call.operands[1], &call.operands[2], &call.operands.back()};
  for (const TensorRef* x : parts) {
    if (x->rank != c.batch_rank + 2) fail(Code::format, "attention: an operand has rank {}", x->rank);
  }
  if (c.paged) check_pages(call, c, p);
  if (c.scaled) check_scales(call, c);
  const int64_t together = c.paged ? p.page : p.t, want[4][2] = {{p.s, p.d}, {together, p.d}, {together, p.e}, {p.s, p.e}};
  for (int k = 0; k < 4; ++k) {
    const TensorRef& x = *parts[k];
    const bool in_pages = c.paged && (k == 1 || k == 2);
    if (x.dims[c.batch_rank] != want[k][0] || x.dims[c.batch_rank + 1] != want[k][1]) fail(Code::format, "attention: operand {} does not have its sizes", k);
    if (!in_pages && x.dtype != parts[0]->dtype) fail(Code::format, "attention: operands of several dtypes");
    for (int b = in_pages ? 1 : 0; b < c.batch_rank; ++b) {
      if (x.dims[b] != parts[0]->dims[b]) fail(Code::format, "attention: operands of several batch sizes");
    }
  }
  for (int b = 0; b < c.batch_rank; ++b) {
    p.batch_dims.push_back(parts[0]->dims[b]);
    p.batch *= parts[0]->dims[b];
  }
  if (c.filled) check_filled("attention", call.operands[call.operands.size() - 2], parts[0]->dims[0]);
  p.type = parts[0]->dtype;
  p.key_type = parts[1]->dtype;
  if (!ir::is_float(p.type)) fail(Code::format, "attention: dtype {}", ir::name_of(p.type));
  if (!c.mask) return p;
  const bool wide = p.type == DType::f64;
  const DType score = wide ? DType::f64 : DType::f32;
  if (c.mask->memory.back() != score || (c.mask->has_accumulator && c.mask->accumulator != (wide ? Class::f64 : Class::f32)))
    fail(Code::format, "attention: the mask of {} is not one of {} scores", ir::name_of(p.type), ir::name_of(score));
  std::vector<int64_t> domain = p.batch_dims;
  domain.push_back(p.s);
  domain.push_back(p.t);
  p.mask = bind_program(c.mask, mask_operands(call.operands, c.optional()), call.sizes.subspan(4), domain, false);
  p.has_mask = true;
  p.mask_bytes = (p.mask.scratch + 63) / 64 * 64;
  p.mask_same_rows = true;
  for (const auto& strides : p.mask.strides) p.mask_same_rows = p.mask_same_rows && strides[static_cast<size_t>(c.batch_rank)] == 0;
  for (const ProgramInstruction& i : p.mask.program->code) {
    if ((i.kind == Kind::index && i.axis == c.batch_rank) || !i.lower.empty()) p.mask_same_rows = false;
  }
  return p;
}

void Operands::go_to(int64_t batch, int64_t next) {
  if (batch != batch_) {
    locate(batch, at);
    for (size_t k = 0; k < 4; ++k) base_[k] = begin(operand(k), at);
    keys = c_.filled ? filled_keys(call_.operands[call_.operands.size() - 2], at[0], p_.t) : p_.t;
    first = c_.filled ? keys - p_.s : 0;
  }
  batch_ = batch;
  int64_t there[16];
  locate(next, there);
  for (size_t k = 0; k < 3; ++k) next_[k] = next == batch ? nullptr : begin(operand(k), there);
}

void Operands::locate(int64_t batch, int64_t* at) const {
  for (int b = c_.batch_rank - 1; b >= 0; --b) {
    at[b] = batch % p_.batch_dims[static_cast<size_t>(b)];
    batch /= p_.batch_dims[static_cast<size_t>(b)];
  }
}

void PagedOperands::go_to(int64_t batch, int64_t) {
  if (batch != batch_) {
    locate(batch, at);
    for (size_t k = 0; k < 4; ++k) base_[k] = begin(operand(k), at, k == 1 || k == 2 ? 1 : 0);
    keys = filled_keys(call_.operands[call_.operands.size() - 2], at[0], p_.t);
    first = keys - p_.s;
    const int64_t pages = operand(1).dims[0];
    for (int64_t row = 0; row < keys; row += p_.page) {
      if (const int64_t page = page_of(row); page < 0 || page >= pages)
        fail(Code::invalid_input, "block {} of a block table is out of range for a cache of {} blocks", page, pages);
    }
  }
  batch_ = batch;
}

int64_t PagedOperands::page_of(int64_t row) const {
  const TensorRef& t = table();
  const int64_t page = reinterpret_cast<const int64_t*>(t.data)[at[0] * t.strides[0] + (row >> p_.page_bits) * t.strides[1]];
  return page < 0 ? page + operand(1).dims[0] : page;
}

std::byte* Operands::begin(const TensorRef& x, const int64_t* at, int first_axis) const {
  int64_t offset = 0;
  for (int b = first_axis; b < c_.batch_rank; ++b) offset += at[b] * x.strides[b];
  return x.data + offset * static_cast<int64_t>(ir::size_of(x.dtype));
}

void Operands::prefetch(size_t k, const std::byte* base, int64_t row) const {
  const TensorRef& x = call_.operands[k];
  if (base == nullptr || x.strides[x.rank - 1] != 1 || row >= x.dims[x.rank - 2]) return;
  const auto size = static_cast<int64_t>(ir::size_of(x.dtype));
  const std::byte* at = base + row * x.strides[x.rank - 2] * size;
  for (int64_t b = 0; b < x.dims[x.rank - 1] * size; b += 64) __builtin_prefetch(at + b, 0, 2);
}

template <>
void Scores<float>::scale_rows(float* to, int64_t to_row, const float* from, int64_t from_row, const float* by, int64_t by_step, int64_t rows, int64_t columns) {
  block_ops().scale_rows(to, to_row, from, from_row, by, by_step, rows, columns);
}
template <>
void Scores<double>::scale_rows(double* to, int64_t to_row, const double* from, int64_t from_row, const double* by, int64_t by_step, int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r) {
    const BlockArgument in[] = {{from + r * from_row, false}, {by + r * by_step, true}};
    block_ops().map_f64(ir::Op::mul, to + r * to_row, in, columns);
  }
}

template <>
void Scores<float>::apply(ir::Op op, float* to, const float* x, int64_t n) {
  const BlockArgument in[] = {{to, false}, {x, false}};
  block_ops().map_f32(op, to, in, n);
}
template <>
void Scores<double>::apply(ir::Op op, double* to, const double* x, int64_t n) {
  const BlockArgument in[] = {{to, false}, {x, false}};
  block_ops().map_f64(op, to, in, n);
}

template <>
void Scores<float>::softmax_rows(float* a, int64_t row, int64_t rows, int64_t n, float* largest, float* total, float* keep) {
  block_ops().softmax_rows(a, row, rows, n, largest, total, keep);
}
template <>
void Scores<double>::softmax_rows(double* a, int64_t row, int64_t rows, int64_t n, double* largest, double* total, double* keep) {
  constexpr double nothing = -std::numeric_limits<double>::infinity();
  const BlockOps& ops = block_ops();
  for (int64_t r = 0; r < rows; ++r, a += row) {
    const double m = n > 0 ? ops.extreme_f64(true, a, n) : nothing, old = largest[r], now = std::isnan(m) || m > old ? m : old;
    if (now == nothing) {
      std::fill(a, a + n, 0.0);
      keep[r] = 1;
      continue;
    }
    const BlockArgument in[] = {{a, false}, {&now, true}};
    ops.map_f64(ir::Op::sub, a, in, n);
    ops.map_f64(ir::Op::exp, a, in, n);
    keep[r] = old == nothing ? 0 : std::exp(old - now);
    total[r] = total[r] * keep[r] + ops.wide_sum(Class::f64, a, n);
    largest[r] = now;
  }
}

}  // namespace ingot::kernels::attention
