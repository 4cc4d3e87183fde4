#include "backend/cuda/kernels/fused/fused_cases_test.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "backend/cuda/compile/prelude.h"
#include "base/error.h"
#include "ir/half.h"

namespace ingot::backend::cuda {

using cpu::BodyBuilder;
using ir::DType;
using ir::Op;

HostTensor::HostTensor(DType t, std::vector<int64_t> d, std::vector<size_t> axes, int64_t step)
    : dtype(t), dims(std::move(d)), strides(dims.size(), 0), order(std::move(axes)), gap(step) {
  if (order.empty()) {
    for (size_t k = 0; k < dims.size(); ++k) order.push_back(k);
  }
  int64_t n = gap;
  for (size_t k = order.size(); k-- > 0;) {
    strides[order[k]] = dims[order[k]] == 1 ? 0 : n;
    n *= std::max<int64_t>(dims[order[k]], 1);
  }
  bytes.assign(static_cast<size_t>(n) * ir::size_of(t), std::byte{0xa5});
}

void HostTensor::set(size_t e, double v) {
  std::byte* p = bytes.data() + e * ir::size_of(dtype);
  auto as = [&](auto x) { std::memcpy(p, &x, sizeof x); };
  auto integer = [&] { return std::abs(v) < 9e18 ? static_cast<int64_t>(v) : int64_t{0}; };
  switch (dtype) {
    case DType::b8: return as(static_cast<uint8_t>(v != 0));
    case DType::u8:
    case DType::i8: return as(static_cast<uint8_t>(integer()));
    case DType::i16: return as(static_cast<int16_t>(integer()));
    case DType::i32: return as(static_cast<int32_t>(integer()));
    case DType::i64: return as(integer());
    case DType::f16: return as(ir::float_to_f16(static_cast<float>(v)));
    case DType::bf16: return as(ir::float_to_bf16(static_cast<float>(v)));
    case DType::f32: return as(static_cast<float>(v));
    default: return as(v);
  }
}

double HostTensor::get(size_t e) const {
  const std::byte* p = bytes.data() + e * ir::size_of(dtype);
  auto as = [&](auto x) {
    std::memcpy(&x, p, sizeof x);
    return x;
  };
  switch (dtype) {
    case DType::b8:
    case DType::u8: return as(uint8_t{});
    case DType::i8: return as(int8_t{});
    case DType::i16: return as(int16_t{});
    case DType::i32: return as(int32_t{});
    case DType::i64: return static_cast<double>(as(int64_t{}));
    case DType::f16: return ir::f16_to_float(as(uint16_t{}));
    case DType::bf16: return ir::bf16_to_float(as(uint16_t{}));
    case DType::f32: return as(float{});
    default: return as(double{});
  }
}

void HostTensor::fill(uint32_t seed, bool small) {
  std::mt19937 random(seed);
  const double special[] = {0.0, -0.0, 1, -1, 0.5, -2.5, INFINITY, -INFINITY, NAN, 3, 100, -100};
  for (size_t k = 0; k < elements(); ++k) {
    if (!ir::is_float(dtype)) {
      int64_t v = small ? static_cast<int64_t>(random() % 5) + 1 : static_cast<int64_t>(random()) << (random() % 32);
      if (dtype == DType::b8) v = random() % 2;
      std::memcpy(bytes.data() + k * ir::size_of(dtype), &v, ir::size_of(dtype));
    } else {
      double v = random() % 8 == 0 ? special[random() % 12] : (static_cast<double>(random()) / 4294967296.0 - 0.5) * (random() % 2 ? 4 : 30);
      if (small) v = static_cast<double>(random()) / 1e9 - 2;
      set(k, v);
    }
  }
}

std::vector<int64_t> Case::domain() const {
  std::vector<int64_t> d;
  for (const ir::Dim& x : body.outer) d.push_back(x.value());
  for (const ir::Dim& x : body.row) d.push_back(x.value());
  return d;
}

FusedBody Case::emitted_body() const {
  FusedBody b = body;
  if (!symbolic) return b;
  ir::SymbolId next = 0;
  for (ir::Dim& d : b.outer) d = ir::Dim::symbol(next++);
  for (ir::Dim& d : b.row) d = ir::Dim::symbol(next++);
  return b;
}

std::vector<StridedLayout> Case::layouts() const {
  std::vector<int64_t> d = domain();
  std::vector<StridedLayout> out;
  for (const HostTensor& t : tensors) {
    StridedLayout l;
    for (size_t a = 0; a < t.dims.size(); ++a) {
      bool whole = symbolic && a < d.size() && t.dims[a] == d[a] && t.dims[a] != 1;
      l.dims.push_back(whole ? ir::Dim::symbol(static_cast<ir::SymbolId>(a)) : ir::Dim(t.dims[a]));
    }
    l.strides.resize(t.dims.size());
    ir::Dim n = t.gap;
    for (size_t k = t.order.size(); k-- > 0;) {
      size_t a = t.order[k];
      l.strides[a] = t.strides[a] == 0 ? ir::Dim(0) : n;
      n = n * l.dims[a];
    }
    l.offset = t.offset;
    out.push_back(std::move(l));
  }
  return out;
}

namespace {

constexpr DType all_types[] = {DType::b8, DType::u8, DType::i8, DType::i16, DType::i32, DType::i64, DType::f16, DType::bf16, DType::f32, DType::f64};

// A case under construction; operands become tensors at once.
struct Build {
  Case c;
  BodyBuilder k;
  std::vector<int64_t> shape;

  Build(std::string name, std::vector<int64_t> outer, std::vector<int64_t> row) : k(outer, row), shape(outer) {
    c.name = std::move(name);
    shape.insert(shape.end(), row.begin(), row.end());
  }
  Reg load(HostTensor t, uint32_t seed, bool small = false, std::vector<Reg> index = {}) {
    t.fill(seed, small);
    c.tensors.push_back(std::move(t));
    return k.load(c.tensors.back().dtype, std::move(index));
  }
  Reg load(DType t, uint32_t seed, bool small = false) { return load(HostTensor(t, shape), seed, small); }
  void store(HostTensor t, Reg value) {
    k.store(t.dtype, value);
    c.tensors.push_back(std::move(t));
  }
  void store(DType t, Reg value) { store(HostTensor(t, shape), value); }
  // The element at `e` of the last tensor.
  void put(size_t e, double v) { c.tensors.back().set(e, v); }
  Case done(bool symbolic = false) {
    c.body = k.body;
    c.symbolic = symbolic;
    if (symbolic) c.name += " symbolic";
    return std::move(c);
  }
};

const char* text(DType t) { return ir::name_of(t).data(); }

}  // namespace

// Every primitive on each of its dtypes, several in one body.
std::vector<Case> primitive_cases() {
  std::vector<Case> out;
  constexpr size_t in_one_body = 10;
  const std::vector<int64_t> outer = {6}, row = {96};
  for (DType t : all_types) {
    std::vector<Op> ops;
    for (size_t o = 0; o < ir::op_count; ++o) {
      Op op = static_cast<Op>(o);
      if (ir::is_map(op) && ir::result_of(op) != ir::ResultType::attribute && ir::takes(op, t)) ops.push_back(op);
    }
    for (size_t from = 0; from < ops.size(); from += in_one_body) {
      size_t to = std::min(ops.size(), from + in_one_body);
      Build b(fmt::format("{} {} to {}", text(t), ir::name_of(ops[from]), ir::name_of(ops[to - 1])), outer, row);
      // Divisors, shifts and powers of integers are small and not 0.
      Reg x = b.load(t, 1), y = b.load(HostTensor(t, {1, 96}), 2), z = b.load(HostTensor(t, {6, 1}), 8), small = b.load(t, 3, true), positive = b.load(t, 4, true);
      Reg condition = b.load(DType::b8, 6);
      for (size_t k = from; k < to; ++k) {
        Op op = ops[k];
        bool test = ir::result_of(op) == ir::ResultType::boolean;
        bool divides = (op >= Op::truncdiv && op <= Op::fmod) || op == Op::shift_left || op == Op::shift_right || op == Op::pow || op == Op::gcd;
        std::vector<Reg> in = {op == Op::pow || op == Op::gcd ? positive : op == Op::select ? condition : x, divides && !ir::is_float(t) ? small : y, z};
        in.resize(static_cast<size_t>(ir::arity_of(op)));
        b.store(test ? DType::b8 : t, b.k.map(op, test ? DType::b8 : ir::compute_type(t), in));
      }
      out.push_back(b.done());
    }
    Build casts(fmt::format("casts from {}", text(t)), outer, row);
    Reg x = casts.load(t, 5);
    for (DType to : all_types) casts.store(to, casts.k.map(Op::cast, to, {x}));
    for (DType to : all_types) {
      if (!ir::has_bits_of(to, t)) continue;
      Reg bits = ir::compute_type(t) == t ? x : casts.k.map(Op::cast, t, {x});
      casts.store(to, casts.k.map(Op::bitcast, to, {bits}));
    }
    out.push_back(casts.done());
  }
  return out;
}

std::vector<Case> transposed_cases() {
  std::vector<Case> out;
  const auto f = DType::f32, h = DType::f16;
  const std::vector<size_t> plain, transposed{0, 2, 1}, outward{2, 1, 0};
  struct Form {
    const char* name;
    DType type;
    std::vector<int64_t> dims;
    std::vector<size_t> x, y, to;
  };
  const Form forms[] = {{"an operand is transposed", h, {2, 40, 33}, transposed, plain, plain},
                        {"the result is transposed", h, {2, 40, 33}, plain, plain, transposed},
                        {"all but one are transposed", f, {1, 32, 64}, transposed, plain, transposed},
                        {"all are transposed", DType::bf16, {3, 17, 100}, transposed, transposed, transposed},
                        {"two ways to turn", f, {20, 19, 35}, transposed, outward, plain},
                        {"far from one another", h, {16, 3, 130}, outward, plain, plain},
                        {"too short", h, {2, 15, 40}, transposed, plain, plain}};
  for (const Form& form : forms) {
    for (bool symbolic : {false, true}) {
      Build k(form.name, {form.dims[0], form.dims[1]}, {form.dims[2]});
      Reg x = k.load(HostTensor(form.type, form.dims, form.x), 1, true), y = k.load(HostTensor(f, form.dims, form.y), 2, true),
          bias = k.load(HostTensor(f, {1, form.dims[1], 1}), 3, true);
      k.store(HostTensor(form.type, form.dims, form.to), k.k.map(Op::add, f, {k.k.map(Op::relu, f, {k.k.map(Op::add, f, {x, y})}), bias}));
      out.push_back(k.done(symbolic));
    }
  }
  // Places past the ends divide by nothing.
  Build whole("whole numbers are transposed", {2, 21}, {37});
  Reg one = whole.load(HostTensor(DType::i32, {2, 21, 37}, transposed), 1), by = whole.load(HostTensor(DType::i32, {2, 21, 37}, transposed), 2, true);
  for (size_t e = 0; e < whole.c.tensors[1].elements(); ++e) whole.c.tensors[1].set(e, static_cast<double>(1 + e % 5));
  whole.store(HostTensor(DType::i32, {2, 21, 37}), whole.k.map(Op::floordiv, DType::i32, {one, by}));
  out.push_back(whole.done());
  return out;
}

std::vector<Case> shape_cases() {
  std::vector<Case> out;
  const auto f = DType::f32, h = DType::f16;
  // Two operands of different shapes and strides.
  struct Form {
    const char* name;
    std::vector<int64_t> dims;
    std::vector<size_t> order;
    int64_t gap;
  };
  const Form forms[] = {{"contiguous", {3, 5, 64}, {}, 1},     {"strided", {3, 5, 64}, {}, 3}, {"transposed", {3, 5, 64}, {2, 1, 0}, 1},
                        {"swapped", {3, 5, 64}, {1, 0, 2}, 1}, {"row", {1, 1, 64}, {}, 1},     {"rows", {3, 1, 64}, {}, 1},
                        {"column", {3, 5, 1}, {}, 1},          {"middle", {1, 5, 1}, {}, 1},   {"number", {1, 1, 1}, {}, 1}};
  for (const Form& a : forms) {
    for (const Form& b : forms) {
      if (&a != &forms[0] && &b != &forms[0] && &a != &b) continue;
      for (bool symbolic : {false, true}) {
        if (symbolic && (&a > &forms[3] || &b != &forms[0])) continue;
        Build k(fmt::format("{} and {}", a.name, b.name), {3, 5}, {64});
        Reg x = k.load(HostTensor(&a == &forms[3] ? h : f, a.dims, a.order, a.gap), 1), y = k.load(HostTensor(f, b.dims, b.order, b.gap), 2);
        k.store(HostTensor(f, {3, 5, 64}, a.dims[0] == 3 && a.dims[2] == 64 ? a.order : std::vector<size_t>()), k.k.map(Op::add, f, {x, y}));
        out.push_back(k.done(symbolic));
      }
    }
  }
  // From one element to many blocks, also odd sizes.
  for (int64_t n : {1, 3, 77, 1000, 4099, 70000, 1 << 20}) {
    for (DType t : {f, h, DType::i8}) {
      for (bool symbolic : {false, true}) {
        Build k(fmt::format("{} {} elements", text(t), n), {1}, {n});
        Reg x = k.load(t, 1), y = k.load(t, 2);
        k.store(t, k.k.map(Op::mul, ir::compute_type(t), {x, y}));
        out.push_back(k.done(symbolic));
      }
    }
  }
  // Rows of a table, whole and by element.
  for (bool symbolic : {false, true}) {
    Build k("rows of a table", {3}, {40});
    Reg i = k.load(HostTensor(DType::i64, {3, 1}), 1);
    for (size_t r = 0; r < 3; ++r) k.put(r, static_cast<double>(4 - 2 * r));
    HostTensor table(h, {1, 40, 5}, {2, 1, 0});
    Reg v = k.load(table, 2, false, {i});
    k.store(h, v);
    out.push_back(k.done(symbolic));
    Build e("elements of a table", {3}, {40});
    Reg at = e.load(DType::i64, 1), other = e.load(DType::i32, 1);
    for (size_t n = 0; n < 120; ++n) e.c.tensors[0].set(n, static_cast<double>(n * 7 % 9));
    for (size_t n = 0; n < 120; ++n) e.c.tensors[1].set(n, static_cast<double>(n * 5 % 4));
    Reg w = e.load(HostTensor(f, {1, 1, 9, 4}), 2, false, {at, other});
    e.store(f, w);
    out.push_back(e.done(symbolic));
  }
  Build outside("an index that is too large", {3}, {40});
  Reg bad = outside.load(HostTensor(DType::i64, {3, 1}), 1);
  for (size_t r = 0; r < 3; ++r) outside.put(r, static_cast<double>(r * 2));
  outside.store(f, outside.load(HostTensor(f, {1, 40, 4}, {2, 1, 0}), 2, false, {bad}));
  out.push_back(outside.done());
  out.back().status = 1;
  Build zero("division by zero", {2}, {8});
  Reg one = zero.load(DType::i32, 1), none = zero.load(DType::i32, 2, true);
  zero.put(5, 0);
  zero.store(DType::i32, zero.k.map(Op::floordiv, DType::i32, {one, none}));
  out.push_back(zero.done());
  out.back().status = 2;
  // Guarded loads: a frame of numbers around an image, along the last axis and the first.
  for (bool symbolic : {false, true}) {
    for (int64_t side : {0, 2}) {
      Build k(fmt::format("a frame, {} wider", side), {6}, {24 + 2 * side});
      Reg v = k.load(HostTensor(f, {4, 24}), 1);
      k.k.body.code[v].number = -7.5;
      k.k.body.code[v].lower = {ir::Dim(1), ir::Dim(side)};
      Reg row = k.k.index(0), column = k.k.index(1);
      k.store(f,
              k.k.map(Op::add, f, {v, k.k.map(Op::cast, f, {k.k.map(Op::add, DType::i64, {row, k.k.map(Op::mul, DType::i64, {column, k.k.number(int64_t{10}, DType::i64)})})})}));
      out.push_back(k.done(symbolic));
    }
  }
  // Windows with steps of two and three in padding: along the last axis, and along the first two with whole channels.
  for (bool symbolic : {false, true}) {
    Build k("windows of a padded line", {5}, {9});
    Reg v = k.load(HostTensor(f, {4, 24}), 1);
    k.k.body.code[v].number = -7.5;
    k.k.body.code[v].lower = {ir::Dim(1), ir::Dim(2)};
    k.k.body.code[v].step = {1, 3};
    k.store(f, v);
    out.push_back(k.done(symbolic));
    for (DType t : {f, h}) {
      Build c(fmt::format("windows of a padded picture {}", text(t)), {5, 4}, {16});
      Reg w = c.load(HostTensor(t, {9, 7, 16}), 1);
      c.k.body.code[w].number = -INFINITY;
      c.k.body.code[w].lower = {ir::Dim(1), ir::Dim(1), ir::Dim(0)};
      c.k.body.code[w].step = {2, 2, 1};
      c.store(t, w);
      out.push_back(c.done(symbolic));
    }
  }
  // Names of values in a kernel must not clash with names of types.
  Build bools("a frame of bools, the eighth value", {6}, {24});
  Reg chain = bools.load(f, 1);
  while (chain < 7) chain = bools.k.map(Op::neg, f, {chain});
  Reg eighth = bools.load(HostTensor(DType::b8, {4, 24}), 2);
  bools.k.body.code[eighth].lower = {ir::Dim(1), ir::Dim(0)};
  bools.store(f, chain);
  bools.store(DType::b8, eighth);
  out.push_back(bools.done());
  // A value that is constant along the row and stored once, next to one that is not.
  for (bool symbolic : {false, true}) {
    Build k("once and all", {6}, {32});
    Reg s = k.load(HostTensor(f, {6, 1}), 1), x = k.load(h, 2);
    Reg d = k.k.map(Op::add, f, {s, k.k.number(1.0, f)});
    k.store(HostTensor(f, {6, 1}), d);
    k.store(h, k.k.map(Op::mul, f, {x, d}));
    out.push_back(k.done(symbolic));
  }
  return out;
}

Case activation_case(DType t, int64_t rows, int64_t columns) {
  Build k(fmt::format("gelu(x + b) * y + r {} {}x{}", text(t), rows, columns), {rows}, {columns});
  const auto f = DType::f32;
  Reg x = k.load(t, 1, true), b = k.load(HostTensor(t, {1, columns}), 2, true), y = k.load(t, 3, true), r = k.load(t, 4, true);
  k.store(t, k.k.map(Op::add, f, {k.k.map(Op::mul, f, {k.k.map(Op::gelu, f, {k.k.map(Op::add, f, {x, b})}), y}), r}));
  return k.done();
}

Case softmax_case(DType t, int64_t rows, int64_t columns) {
  Build k(fmt::format("softmax {} {}x{}", text(t), rows, columns), {rows}, {columns});
  const auto f = DType::f32;
  Reg x = k.load(t, 1, true);
  if (columns > 3) k.put(2, -INFINITY);
  Reg e = k.k.map(Op::exp, f, {k.k.map(Op::sub, f, {x, k.k.reduce(Reduction::max, f, x)})});
  k.store(t, k.k.map(Op::div, f, {e, k.k.reduce(Reduction::sum, f, e)}));
  return k.done();
}

Case layer_norm_case(DType t, int64_t rows, int64_t columns, bool residual) {
  Build k(fmt::format("layer norm{} {} {}x{}", residual ? " with residual" : "", text(t), rows, columns), {rows}, {columns});
  const auto f = DType::f32;
  Reg x = k.load(t, 1, true);
  if (residual) x = k.k.map(Op::add, f, {x, k.load(t, 4, true)});
  Reg w = k.load(HostTensor(t, {1, columns}), 2, true), b = k.load(HostTensor(t, {1, columns}), 3, true), count = k.k.number(static_cast<double>(columns), f);
  Reg c = k.k.map(Op::sub, f, {x, k.k.map(Op::div, f, {k.k.reduce(Reduction::sum, f, x), count})});
  Reg v = k.k.map(Op::div, f, {k.k.reduce(Reduction::sum, f, k.k.map(Op::mul, f, {c, c})), count});
  Reg s = k.k.map(Op::rsqrt, f, {k.k.map(Op::add, f, {v, k.k.number(1e-5, f)})});
  if (residual) k.store(t, x);
  k.store(t, k.k.map(Op::add, f, {k.k.map(Op::mul, f, {k.k.map(Op::mul, f, {c, s}), w}), b}));
  return k.done();
}

Case row_sum_case(DType t, int64_t rows, int64_t columns) {
  Build k(fmt::format("sum {} {} x {}", text(t), rows, columns), {rows}, {columns});
  k.store(HostTensor(DType::f32, {rows, 1}), k.k.reduce(Reduction::sum, DType::f32, k.load(HostTensor(t, {rows, columns}), 1, true)));
  return k.done(true);
}

Case scaled_norm_case(DType t, std::vector<int64_t> dims, std::vector<size_t> order) {
  Build k(fmt::format("scaled norm {} {} x {} x {}", text(t), dims[0], dims[1], dims[2]), {dims[0], dims[1]}, {dims[2]});
  const auto f = DType::f32;
  Reg x = k.load(HostTensor(t, dims, std::move(order)), 1, true), w = k.load(HostTensor(t, {dims[0], 1, dims[2]}), 2, true);
  Reg mean = k.k.map(Op::div, f, {k.k.reduce(Reduction::sum, f, x), k.k.number(static_cast<double>(dims[2]), f)}), c = k.k.map(Op::sub, f, {x, mean});
  Reg s = k.k.map(Op::rsqrt, f, {k.k.map(Op::add, f, {k.k.reduce(Reduction::sum, f, k.k.map(Op::mul, f, {c, c})), k.k.number(1e-5, f)})});
  k.store(t, k.k.map(Op::mul, f, {k.k.map(Op::mul, f, {c, s}), w}));
  k.store(HostTensor(f, {dims[0], dims[1], 1}), mean);
  return k.done();
}

std::vector<Case> row_cases(bool all) {
  std::vector<Case> out;
  const auto f = DType::f32;
  auto both = [&](Case c) {
    Case s = c;
    s.symbolic = true;
    s.name += " symbolic";
    out.push_back(std::move(c));
    out.push_back(std::move(s));
  };
  const std::vector<int64_t> selected = {7, 768, 40000}, many = {1, 2, 7, 16, 33, 128, 768, 1000, 1025, 4096, 9000, 20000, 40000};
  for (int64_t n : all ? many : selected) {
    both(softmax_case(f, 5, n));
    out.push_back(softmax_case(DType::f16, 5, n));
    out.push_back(layer_norm_case(f, 5, n, false));
    both(layer_norm_case(DType::bf16, 5, n, true));
  }
  // Every reduction that a dtype has.
  for (DType t : {DType::b8, DType::u8, DType::i32, DType::i64, DType::f16, f, DType::f64}) {
    for (int64_t n : all ? std::vector<int64_t>{0, 1, 5, 64, 700, 5000} : std::vector<int64_t>{64}) {
      Build k(fmt::format("reductions of {} over {}", text(t), n), {4}, {n});
      Reg a = k.load(t, 1, true);
      for (size_t e = 0; e < static_cast<size_t>(4 * n); ++e)
        k.put(e, ir::is_float(t) ? static_cast<double>(e * 37 % 64) / 16 - 1 : static_cast<double>(e * 37 % 9 > e / std::max<size_t>(1, static_cast<size_t>(n))));
      if (n > 5 && ir::is_float(t)) k.put(static_cast<size_t>(2 * n + 3), NAN);
      DType compute = ir::compute_type(t);
      for (int kind = 0; kind <= static_cast<int>(Reduction::argmin); ++kind) {
        auto r = static_cast<Reduction>(kind);
        bool logic = r == Reduction::any || r == Reduction::all, arg = r == Reduction::argmax || r == Reduction::argmin;
        if (logic != (t == DType::b8)) continue;
        if (n == 0 && (arg || ((r == Reduction::max || r == Reduction::min) && !ir::is_float(t)))) continue;  // refused before
        if (r == Reduction::prod && ir::is_float(t) && n > 700) continue;  // the product would lose all digits
        DType result = arg ? DType::i64 : compute;
        k.store(HostTensor(arg ? DType::i64 : t, {4, 1}), k.k.reduce(r, result, a));
      }
      if (all || t == f) {
        both(k.done());
      } else {
        out.push_back(k.done());
      }
    }
  }
  // Strided rows, rows of two axes that cannot be merged, rows of half a warp among many.
  for (int64_t n : all ? std::vector<int64_t>{0, 3, 50, 700} : std::vector<int64_t>{0, 50}) {
    Build k(fmt::format("columns of {}", n), {2, 100}, {n});
    Reg x = k.load(HostTensor(f, {2, 100, n}, {0, 2, 1}), 1, true);
    Reg m = k.k.reduce(Reduction::max, f, x), e = k.k.map(Op::exp, f, {k.k.map(Op::sub, f, {x, m})});
    k.store(HostTensor(f, {2, 100, 1}), m);
    Reg sum = k.k.reduce(Reduction::sum, f, e);
    k.store(HostTensor(f, {2, 100, 1}), sum);
    if (n > 0) {  // otherwise one is refused before, and the other cannot be checked
      k.store(HostTensor(DType::i64, {2, 100, 1}), k.k.reduce(Reduction::argmax, DType::i64, x));
      k.store(HostTensor(f, {2, 100, n}, {0, 2, 1}), k.k.map(Op::div, f, {e, sum}));
    }
    both(k.done());
  }
  Build two("rows of two axes", {6}, {5, 16});
  Reg x = two.load(HostTensor(f, {6, 5, 16}, {1, 0, 2}), 1, true), w = two.load(HostTensor(DType::f16, {1, 1, 16}), 2, true);
  Reg p = two.k.map(Op::mul, f, {x, w});
  two.store(HostTensor(f, {6, 1, 1}), two.k.reduce(Reduction::sum, f, p));
  two.store(HostTensor(f, {6, 5, 16}), two.k.map(Op::sub, f, {p, two.k.reduce(Reduction::min, f, p)}));
  two.store(HostTensor(DType::i64, {6, 1, 1}), two.k.reduce(Reduction::argmin, DType::i64, p));
  both(two.done());
  both(softmax_case(DType::f16, 1001, 24));
  both(softmax_case(f, 33, 48));
  return out;
}

// ---- compiled and on the device

CompiledCases::CompiledCases(const std::vector<Case>& cases, size_t in_one_source) {
  std::map<std::string, size_t> at;  // equal bodies have one kernel
  size_t count = in_one_source;
  for (const Case& c : cases) {
    emitted_.push_back(emit(c.emitted_body(), c.layouts(), c.tuning));
    const Emitted& e = emitted_.back();
    if (auto found = at.find(e.code.name); found != at.end()) {
      source_of_.push_back(found->second);
      continue;
    }
    if (count++ == in_one_source) {
      sources_.emplace_back();
      count = 1;
    }
    sources_.back() += e.code.text;
    source_of_.push_back(sources_.size() - 1);
    at[e.code.name] = sources_.size() - 1;
  }
  for (std::string& source : sources_) source = with_prelude(source);
}

std::string CompiledCases::all_text() const {
  std::string all;
  for (const std::string& s : sources_) all += s;
  return all;
}

size_t CompiledCases::compile_for(int sm, CompileJob::Form form, const std::string& cache) {
  std::vector<CompileJob> jobs;
  for (const std::string& s : sources_) jobs.push_back({s, sm, form});
  code_ = compile(jobs, {0, cache}).code;
  size_t bytes = 0;
  for (const auto& c : code_) bytes += c.size();
  return bytes;
}

void CompiledCases::load(const DevicePtr& device) {
  for (const auto& c : code_) modules_.push_back(std::make_unique<Module>(device, c));
}

Function CompiledCases::function(size_t k, uint32_t variant) const { return modules_[source_of_[k]]->function(fmt::format("{}_{}", emitted_[k].code.name, variant)); }

DeviceCase::DeviceCase(const Case& c, const Emitted& e, const DevicePtr& device, bool shifted, bool only_wide)
    : case_(c), args_(kernels::parse_fused_cuda(e.arguments)), status_(device, 24) {
  for (const HostTensor& t : c.tensors) {
    size_t start = shifted ? ir::size_of(t.dtype) : 0;
    memory_.emplace_back(device, t.bytes.size() + 16);
    memory_.back().copy_from(t.bytes.data(), t.bytes.size(), nullptr, start);
    start_.push_back(start);
    refs_.push_back({reinterpret_cast<std::byte*>(memory_.back().address() + start), t.dtype, static_cast<int>(t.dims.size()), t.dims.data(), t.strides.data()});
  }
  status_.fill(0);
  // No device has this much shared memory.
  for (auto& v : args_.variants) v.kept = only_wide && !v.wide ? UINT16_MAX : v.kept;
  std::vector<int64_t> sizes;
  std::vector<int64_t> symbols = c.symbols();
  for (const ir::Dim& d : e.sizes) sizes.push_back(d.evaluate(symbols));
  sizes.insert(sizes.end(), symbols.begin(), symbols.end());
  launch_ = kernels::resolve_fused_cuda(args_, refs_, sizes, device->properties().shared_block);
}

const kernels::FusedLaunch::Grid& DeviceCase::grid() { return launch_.bind(refs_, status_.address()); }

void DeviceCase::launch(const CompiledCases& compiled, size_t k, StreamHandle stream) {
  const auto& g = grid();
  if (g.blocks == 0) return;
  compiled.function(k, g.variant).launch({g.blocks, g.threads, g.shared}, launch_.parameters, stream);
}

std::vector<std::byte> DeviceCase::read(size_t tensor) const {
  std::vector<std::byte> out(case_.tensors[tensor].bytes.size());
  memory_[tensor].copy_to(out.data(), out.size(), nullptr, start_[tensor]);
  return out;
}

uint64_t DeviceCase::status() const {
  uint64_t v[3];
  status_.copy_to(v, sizeof v);
  return v[0];
}

}  // namespace ingot::backend::cuda
