// Ingot's own GEMM kernels on the host and, if there is one, on a GPU: every tile, layout and map, with epilogues, against sums in double.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <memory>

#include "backend/cpu/compile/body_builder_test.h"
#include "backend/cuda/available_test.h"
#include "backend/cuda/compile/emulated_test.h"
#include "backend/cuda/kernels/gemm/gemm.h"
#include "backend/cuda/kernels/gemm/gemm_sites_test.h"
#include "backend/cuda/kernels/gemm/gemm_step.h"
#include "backend/cuda/kernels/gemm/packed/packing.h"
#include "backend/cuda/kernels/gemm/run/implementation.h"
#include "backend/cuda/kernels/gpu_step_test.h"
#include "ir/compose.h"
#include "ir/reference.h"

namespace ingot::backend::cuda {
namespace {

using ir::Dim;
using ir::DType;
using ir::Op;

// The index of a row among these axes, then of a column.
std::vector<int64_t> place(const std::vector<int64_t>& rows, int64_t row, int64_t column) {
  std::vector<int64_t> out(rows.size() + 1, column);
  for (size_t axis = rows.size(); axis-- > 0; row /= rows[axis]) out[axis] = row % rows[axis];
  return out;
}

// The epilogue: gelu(acc * scale[n] + bias[n]) + residual[m, n], stored twice: as it is, and transposed in f32. If gated, the result of GELU is multiplied by
// the second half.
struct Epilogue {
  FusedBody body;
  std::vector<StridedLayout> layouts;
  std::vector<HostTensor> tensors;
  std::vector<int64_t> rows;

  explicit Epilogue(const GemmCase& s) : rows(s.rows.empty() ? std::vector<int64_t>{s.m} : s.rows) {
    body.outer = dims_of(rows);
    body.row = {Dim(s.n)};
    auto add = [&](Instruction i) {
      i.dtype = DType::f32;
      body.code.push_back(std::move(i));
      return static_cast<Reg>(body.code.size() - 1);
    };
    auto map = [&](Op op, std::vector<Reg> in) {
      Instruction i{};
      i.kind = Instruction::Kind::map;
      i.op = op;
      i.in = std::move(in);
      return add(i);
    };
    auto operand = [&](HostTensor t) {
      t.fill(static_cast<uint32_t>(7 + tensors.size()), true);
      layouts.push_back(layout_of(t));
      if (s.merged && t.dims[0] == rows[0]) layouts.back().strides[1] = layouts.back().strides[0];
      body.operands.push_back(t.dtype);
      tensors.push_back(std::move(t));
      return static_cast<uint32_t>(tensors.size() - 1);
    };
    auto load = [&](HostTensor t) {
      Instruction i{};
      i.kind = Instruction::Kind::load;
      i.operand = operand(std::move(t));
      return add(i);
    };
    Instruction i{};
    i.kind = Instruction::Kind::accumulator;
    Reg acc = add(i);
    // Columns are innermost, or outermost; rows are the other way around than in A.
    std::vector<size_t> columns_last, columns_first{rows.size()};
    for (size_t axis = rows.size(); axis-- > 0;) columns_last.push_back(axis), columns_first.push_back(axis);
    columns_last.push_back(rows.size());
    std::vector<int64_t> one(rows.size(), 1), all = rows, by_row = rows;
    one.push_back(s.n), all.push_back(s.n), by_row.push_back(1);
    Reg scale = load(HostTensor(DType::f32, one)), bias = load(HostTensor(s.type, one)), residual = load(HostTensor(s.type, all, columns_last));
    Reg row = load(HostTensor(DType::f32, by_row));
    Reg inner = map(Op::gelu, {map(Op::add, {map(Op::mul, {acc, scale}), bias})});
    if (s.gated) {
      i.half = 1;
      inner = map(Op::mul, {inner, add(i)});
    }
    Reg out = map(Op::add, {map(Op::add, {inner, residual}), row});
    body.stores = {{operand(HostTensor(DType::f32, all, columns_first)), out}, {operand(HostTensor(s.type, all, columns_last)), out}};
  }
  double expected(double sum, double factor, int64_t row, int64_t column) const {
    double x = sum * at(tensors[0], place(rows, 0, column)) + at(tensors[1], place(rows, 0, column));
    return 0.5 * x * std::erfc(-x * std::sqrt(0.5)) * factor + at(tensors[2], place(rows, row, column)) + at(tensors[3], place(rows, row, 0));
  }
};

// The prologue's body and operands.
struct PrologueRow {
  FusedBody body;
  std::vector<StridedLayout> layouts;
  std::vector<HostTensor> tensors;

  explicit PrologueRow(const GemmCase& s) {
    cpu::BodyBuilder b({1}, {s.k});
    auto load = [&](DType t) {
      tensors.emplace_back(t, std::vector<int64_t>{1, s.k});
      tensors.back().fill(static_cast<uint32_t>(20 + tensors.size()), true);
      return b.load(t);
    };
    constexpr DType f32 = DType::f32;
    Reg x = load(s.type), out;
    if (s.prologue == Prologue::gate) {
      Reg y = load(s.type), w = load(f32);
      out = b.map(Op::mul, f32, {b.map(Op::mul, f32, {b.map(Op::silu, f32, {x}), y}), w});
    } else {
      Reg w = load(s.type), sum = b.reduce(Reduction::sum, f32, b.map(Op::mul, f32, {x, x}));
      Reg scale = b.map(Op::rsqrt, f32, {b.map(Op::mul, f32, {sum, b.number(1.0 / static_cast<double>(s.k), f32)})});
      out = b.map(Op::mul, f32, {b.map(Op::cast, s.type, {b.map(Op::mul, f32, {x, scale})}), w});
    }
    b.store(s.type, out);
    body = std::move(b.body);
    for (const HostTensor& t : tensors) layouts.push_back(layout_of(t));
    layouts.push_back(layout_of(s.a));
  }
  void compute(HostTensor& row, Prologue prologue) const {
    auto x = [&](size_t tensor, size_t k) { return tensors[tensor].get(k); };
    const size_t n = tensors[0].elements();
    double squares = 0;
    for (size_t k = 0; k < n; ++k) squares += x(0, k) * x(0, k);
    for (size_t k = 0; k < n; ++k) {
      if (prologue == Prologue::gate) {
        row.set(k, x(0, k) / (1 + std::exp(-x(0, k))) * x(1, k) * x(2, k));
      } else {
        row.set(k, x(0, k) / std::sqrt(squares / static_cast<double>(n)));
        row.set(k, row.get(k) * x(1, k));
      }
    }
  }
};

// Compares both stores with sums in double.
void expect_sums(const GemmCase& s, const Epilogue& body, Where where) {
  // The allowed error: that of f32 sums of numbers around 1, and one rounding to the stored type. A GPU's copying unit rounds ties of floats to even, kernels by
  // warps round them away from zero, so a factor may differ by one rounding to TF32.
  const double tie = s.type == DType::f32 && where == Where::gpu ? std::ldexp(1.0, -10) : 0;
  const double rounding = s.type == DType::f16 ? 1e-3 : s.type == DType::bf16 ? 8e-3 : 0;
  const int64_t columns = s.b.dims[1];
  std::vector<double> left(static_cast<size_t>(s.k)), right(static_cast<size_t>(s.k * columns));
  for (int64_t k = 0; k < s.k; ++k) {
    for (int64_t column = 0; column < columns; ++column) right[static_cast<size_t>(column * s.k + k)] = s.multiplied(at(s.b, {k, column}));
  }
  struct Sum {
    double value = 0, size = 0;
  };
  for (int64_t row = 0; row < s.m; ++row) {
    for (int64_t k = 0; k < s.k; ++k) left[static_cast<size_t>(k)] = s.left(row, k);
    auto sum_of = [&](int64_t column) {
      Sum sum;
      for (size_t k = 0; k < left.size(); ++k) {
        double term = left[k] * right[static_cast<size_t>(column) * left.size() + k];
        sum.value += term;
        sum.size += std::abs(term);
      }
      return sum;
    };
    for (int64_t column = 0; column < s.n; ++column) {
      const Sum sum = sum_of(column), factor = s.gated ? sum_of(s.n + column) : Sum{1, 0};
      if (!std::isfinite(sum.value)) continue;
      double wanted = body.expected(sum.value, factor.value, row, column), size = sum.size * std::abs(factor.value) + factor.size * std::abs(sum.value);
      for (size_t store : {size_t{4}, size_t{5}}) {
        double found = at(body.tensors[store], place(body.rows, row, column));
        // An element of the prologue's row may be rounded in the other direction.
        const double other_way = s.prologue != Prologue::none ? rounding * 8 * (1 + std::abs(factor.value) + (s.gated ? std::abs(sum.value) : 0)) : 0;
        ASSERT_NEAR(found, wanted, 1e-5 * (1 + size) + tie * size + other_way + (store == 5 ? rounding * std::abs(wanted) : 0))
            << "element " << row << ", " << column << " of store " << store;
      }
    }
  }
}

// A site with its operands, and the step that is printed for it.
struct Product {
  GemmCase s;
  std::optional<Epilogue> body;
  HostTensor a;
  std::vector<HostTensor> parts;
  std::optional<HostTensor> packed;
  std::optional<PrologueRow> prologue;
  Gemm p;
  std::optional<Obstacle> obstacle;
  EmittedStep step;
  std::vector<HostTensor*> tensors;

  Product(GemmCase site, Where where) : s(std::move(site)), a(s.a) {
    s.a.fill(1, true);
    s.b.fill(2, true);
    if (s.encoded) {
      HostTensor numbers(DType::i8, s.b.dims, {1, 0});
      uint32_t h = 3;
      for (size_t e = 0; e < numbers.elements(); ++e) numbers.set(e, static_cast<double>(static_cast<int8_t>((h = h * 1664525u + 1013904223u) >> 24) >> (s.gated ? 6 : 0)));
      s.b = std::move(numbers);
    }
    if (s.packed) pack();
    if (s.infinity) s.a.set(s.a.elements() / 2, INFINITY);
    body.emplace(s);
    a = s.a;
    if (!s.rows.empty() && !s.map) {
      std::vector<int64_t> dims = s.rows;
      dims.back() += s.gap;
      dims.push_back(s.k);
      a = HostTensor(s.type, dims);
      a.dims[s.rows.size() - 1] = s.rows.back();
      const size_t batch = static_cast<size_t>(s.rows.back() * s.k) * ir::size_of(s.type), step = static_cast<size_t>((s.rows.back() + s.gap) * s.k) * ir::size_of(s.type);
      for (size_t i = 0; i * batch < s.a.bytes.size(); ++i) std::memcpy(a.bytes.data() + i * step, s.a.bytes.data() + i * batch, batch);
    }
    if (s.packed && s.shifted) {  // a packed B is always aligned: rows of A begin at odd addresses
      a = HostTensor(s.type, {s.m, s.k + 1});
      a.dims[1] = s.k;
      const auto row = static_cast<size_t>(s.k) * ir::size_of(s.type);
      for (size_t i = 0; i < static_cast<size_t>(s.m); ++i) std::memcpy(a.bytes.data() + i * (row + ir::size_of(s.type)), s.a.bytes.data() + i * row, row);
    }
    p.type = s.type;
    p.a = layout_of(a);
    p.map = s.map;
    p.batch_rank = s.rows.empty() ? 0 : s.rows.size() - 1;
    p.m_rank = s.m_rank - (s.map ? p.batch_rank : 0);
    p.constant = s.m == 1 || s.packed;
    if (s.encoded) p.encoding = ir::Encoding{.storage = DType::i8, .block = ir::Encoding::Block{0, 1}};
    if (s.packed) p.packed = packing_for(*s.packed), p.encoding = p.packed->encoding;
    p.gated = s.gated;
    int64_t from = 0;
    for (int64_t columns : s.parts_of_b) {
      HostTensor part(s.type, {s.k, columns}, {1, 0});
      for (int64_t e = 0; e < s.k * columns; ++e) part.set(static_cast<size_t>(e), s.b.get(static_cast<size_t>(from * s.k + e)));
      parts.push_back(std::move(part));
      from += columns;
    }
    if (s.packed) parts.push_back(*packed);
    if (parts.empty()) parts.push_back(s.b);
    if (p.batch_rank > 0) {
      HostTensor& b = parts[0];
      b.dims.insert(b.dims.begin(), s.rows.begin(), s.rows.end() - 1);
      b.strides.insert(b.strides.begin(), p.batch_rank, 0);
    }
    for (HostTensor& part : parts) p.b.push_back(layout_of(part));
    tensors = {&a};
    if (s.prologue != Prologue::none) {
      prologue.emplace(s);
      prologue->compute(s.a, s.prologue);
      p.prologue = {&prologue->body, prologue->layouts};
      tensors.clear();
      for (HostTensor& t : prologue->tensors) tensors.push_back(&t);
    }
    for (HostTensor& t : parts) tensors.push_back(&t);
    Taken own = own_gemm(p, body->body, body->layouts, where >= Where::early_groups, s.tiles);
    obstacle = own.obstacle;
    step = std::move(own.step);
    for (HostTensor& t : body->tensors) tensors.push_back(&t);
  }
  Product(const Product&) = delete;

  // Makes numbers, scales and zeros of B, its elements, and the packed B by the primitives of its packing. The elements are numbers of A's half type.
  void pack() {
    const kernels::PackedB& of = *s.packed;
    const int64_t n = s.b.dims[1], groups = of.group == 0 ? 0 : s.k / of.group;
    uint32_t h = 3;
    auto next = [&](uint32_t below) { return static_cast<int64_t>((h = h * 1664525u + 1013904223u) >> 16) % below; };
    ir::Graph g;
    std::vector<ir::Array> arrays;
    std::vector<ir::Handle> in;
    auto add = [&](HostTensor t) {
      arrays.push_back({t.dtype, t.dims, t.bytes});
      in.emplace_back(&g, g.add_input("x" + std::to_string(in.size()), {t.dtype, dims_of(t.dims)}));
    };
    HostTensor numbers(DType::i8, {s.k, n}), scale(of.scale_bytes == 2 ? DType::bf16 : DType::f32, {groups, n}), zero(DType::i8, {groups, n}), b(DType::f32, {s.k, n}, {1, 0});
    for (size_t e = 0; e < numbers.elements(); ++e) numbers.set(e, static_cast<double>(of.bits == 4 ? next(16) - 8 : s.gated ? next(8) - 4 : next(256) - 128));
    for (int64_t e = 0; e < groups * n; ++e) scale.set(static_cast<size_t>(e), std::ldexp(1.0, static_cast<int>(next(4)) - 5)), zero.set(static_cast<size_t>(e), static_cast<double>(next(16) - 8));
    for (int64_t k = 0; k < s.k; ++k) {
      for (int64_t c = 0; c < n; ++c) {
        const auto block = static_cast<size_t>(groups == 0 ? 0 : k / of.group * n + c);
        const double x = numbers.get(static_cast<size_t>(k * n + c)) - (of.zero ? zero.get(block) : 0);
        b.set(static_cast<size_t>(c * s.k + k), groups == 0 ? x : x * scale.get(block));
      }
    }
    s.b = std::move(b);
    add(std::move(numbers));
    if (groups > 0) add(std::move(scale));
    if (of.zero) add(std::move(zero));
    const Packing packing = packing_for(of);
    g.outputs.push_back({packing.write(packing.encoding, in).id(), "packed", {}});
    const ir::Array made = ir::interpret(g, arrays)[0];
    const int64_t sizes[] = {s.k, n};
    ASSERT_EQ(static_cast<int64_t>(made.bytes.size()), ir::storage_bytes(packing.encoding, sizes));
    packed.emplace(DType::i8, std::vector{static_cast<int64_t>(made.bytes.size())});
    packed->bytes = made.bytes;
  }
};

void check(GemmCase site, Where where) {
  SCOPED_TRACE(fmt::format("{}, way {}", site.name, static_cast<int>(where)));
  Product made(std::move(site), where);
  ASSERT_EQ(made.obstacle, std::nullopt);
  std::vector<int64_t> sizes;
  for (const Dim& d : made.step.sizes) sizes.push_back(d.value());
  const CodeUnit& code = made.step.code[0];
  run_printed({made.step, code.name, text_with_libraries(code), code.kernels, kernels::load_gemm_cuda, kernels::gemm_cuda_launches}, made.tensors, sizes, where,
              made.s.shifted && !made.s.packed ? 1 : 0, made.s.multiprocessors);
  expect_sums(made.s, *made.body, where);
}

// The phases of a transposed convolution, for example: windows that begin elsewhere, as rows of one launch.
void check_joined(const std::vector<GemmCase>& sites, Where where) {
  SCOPED_TRACE(fmt::format("{} times {}, way {}", sites.size(), sites[0].name, static_cast<int>(where)));
  std::vector<std::unique_ptr<Product>> made;
  std::vector<PrintedPart> parts;
  for (const GemmCase& s : sites) {
    Product& one = *made.emplace_back(std::make_unique<Product>(s, where));
    ASSERT_EQ(one.obstacle, std::nullopt);
    parts.push_back({one.step, one.body->body.stores.size(), one.tensors});
  }
  run_joined(parts, where, sites[0].shifted ? 1 : 0, sites[0].multiprocessors);
  for (const auto& one : made) expect_sums(one->s, *one->body, where);
}

// These kernels are launched on any machine, for any K and number of columns.
TEST(cuda_gemm_emulated, few_channels_have_kernels_of_their_own) {
  auto launched = [](GemmCase s, bool known = true) {
    Epilogue body(s);
    Gemm p;
    p.type = s.type;
    p.a = layout_of(s.a);
    p.b = {layout_of(s.b)};
    if (!known) {
      for (Dim& d : p.a.strides) d = Dim::symbol(0);
    }
    p.map = s.map;
    p.m_rank = s.m_rank;
    const Taken own = own_gemm(p, body.body, body.layouts, true);
    std::vector<TensorRef> operands;
    auto add = [&](HostTensor& t) { operands.push_back({t.bytes.data(), t.dtype, static_cast<int>(t.dims.size()), t.dims.data(), t.strides.data()}); };
    add(s.a), add(s.b);
    for (HostTensor& t : body.tensors) add(t);
    std::vector<int64_t> sizes;
    for (const Dim& d : own.step.sizes) sizes.push_back(d.value());
    auto constants = kernels::load_gemm_cuda(own.step.constants, operands.size(), sizes.size());
    Call call;
    call.operands = operands;
    call.sizes = sizes;
    call.constants = constants.get();
    const std::string name = kernels::gemm_cuda_launches(call, {132, true}).list[0].kernel;
    return name.substr(own.step.code[0].name.size() + 1);
  };
  const FewChannels nchw{2, 32, 40, 3, 7, 7, 2, 3, 64, false, true};
  FewChannels nhwc = nchw, large = nchw, many = nchw, whole = nchw;
  nhwc.channels_last = true;
  large.r = large.s = 13, large.h = 30;
  many.c = 16;
  whole.r = whole.s = whole.stride = 8, whole.pad = 0;
  EXPECT_EQ(launched(few_channels(nchw)), "image_0");
  EXPECT_EQ(launched(few_channels(nhwc)), "image_0");
  FewChannels floats = nchw;
  floats.type = DType::f32;
  EXPECT_EQ(launched(few_channels(floats)), "image_0");
  EXPECT_EQ(launched(few_channels(nchw), false), "image_0");
  EXPECT_EQ(launched(few_channels(nhwc), false), "image_1");
  EXPECT_EQ(launched(few_channels(large)), "any_1");
  EXPECT_EQ(launched(few_channels(many)), "one_1");
  EXPECT_EQ(launched(few_channels(whole)), "1");
  for (const GemmCase& s : volume_cases()) {
    if (!s.rows.empty()) continue;  // of batches, which `launched` does not make
    EXPECT_EQ(launched(s), "volume") << s.name;
  }
  EXPECT_EQ(launched(convolution(37, 19, 24, 3, 1, 1, 16, true)), "1");  // images have none
}

// On the host, in every emulated way.
void check_some(std::vector<GemmCase> sites) {
  for (const GemmCase& s : some(std::move(sites), 24)) {
    // Convolutions of few channels use the same instructions on every GPU.
    for (Where where : std::span(emulations).first(s.infinity ? 2 : std::size(emulations))) {
      check(s, where);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(cuda_gemm_emulated, equals_sums) {
  if (std::string why = emulation_missing(); !why.empty()) GTEST_SKIP() << why;
  check_some(half_cases());
}

// Four windows that begin a place apart along each axis, of which one set fills a launch; five of unequal depth take two; and K in parts.
std::vector<std::vector<GemmCase>> joined_sites() {
  std::vector<std::vector<GemmCase>> out;
  auto phases = [&](const GemmCase& s, int64_t count) {
    std::vector<GemmCase> of;
    for (int64_t i = 0; i < count; ++i) {
      GemmCase one = s;
      for (size_t axis : {size_t{1}, size_t{2}}) one.map->axes[axis].offset += Dim(axis == 1 ? i / 2 % 2 : i % 2);
      of.push_back(std::move(one));
    }
    out.push_back(std::move(of));
  };
  for (DType type : {DType::f16, DType::f32}) {
    phases(convolution(9, 7, 64, 2, 1, 1, 72, true, type), 4);
    GemmCase split = convolution(4, 4, 128, 2, 1, 1, 64, true, type);
    split.multiprocessors = 132;
    phases(split, 5);
  }
  GemmCase odd = convolution(6, 5, 16, 2, 1, 1, 24, false, DType::bf16);
  odd.shifted = true;
  phases(odd, 3);
  // The same code for windows of different sizes: their launches differ, or their K alone.
  std::vector<GemmCase> mixed;
  for (int64_t r : {1, 2, 3}) mixed.push_back(convolution(8, 8, 64, r, 1, r / 2, 32, true));
  out.push_back(std::move(mixed));
  // Different rows and K with tiles of one size, of which the smaller product has fewer blocks.
  for (int tile : {0, 1, 5, 7}) {
    std::vector<GemmCase> branches;
    for (const auto& [rows, k] : {std::pair<int64_t, int64_t>{260, 200}, {70, 520}}) {
      GemmCase& one = branches.emplace_back(plain(rows, 320, k, true));
      one.rows = {2, rows / 2};
      one.gap = rows < 100 ? 5 : 0;
      one.tiles = static_cast<uint16_t>(1u << tile);
    }
    out.push_back(std::move(branches));
  }
  return out;
}

TEST(cuda_gemm_emulated, joined_steps_equal_sums) {
  if (std::string why = emulation_missing(); !why.empty()) GTEST_SKIP() << why;
  for (const std::vector<GemmCase>& sites : some(joined_sites(), 12)) {
    for (Where where : {Where::late, Where::early_groups, Where::late_groups}) {
      check_joined(sites, where);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(cuda_gemm, joined_steps_equal_sums) {
  if (std::string why = gpu_missing(); !why.empty()) GTEST_SKIP() << why;
  for (const std::vector<GemmCase>& sites : joined_sites()) check_joined(sites, Where::gpu);
}

TEST(cuda_gemm_emulated, floats_equal_sums) {
  if (std::string why = emulation_missing(); !why.empty()) GTEST_SKIP() << why;
  check_some(float_cases());
}

TEST(cuda_gemm, floats_equal_sums) {
  if (std::string why = gpu_missing(); !why.empty()) GTEST_SKIP() << why;
  for (const GemmCase& s : float_cases()) check(s, Where::gpu);
  for (bool along_k : {false, true}) {
    check(plain(1030, 1160, 520, along_k, DType::f32), Where::gpu);
    check(plain(300, 72, 4104, along_k, DType::f32), Where::gpu);
    check(convolution(28, 28, 128, 3, 1, 1, 128, along_k, DType::f32), Where::gpu);
  }
}

TEST(cuda_gemm_emulated, packed_weights_equal_sums) {
  if (std::string why = emulation_missing(); !why.empty()) GTEST_SKIP() << why;
  for (const GemmCase& s : some(packed_cases(), 5)) {
    for (Where where : {Where::early, Where::late_groups}) {
      check(s, where);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(cuda_gemm, packed_weights_equal_sums) {
  if (std::string why = gpu_missing(); !why.empty()) GTEST_SKIP() << why;
  for (const GemmCase& s : packed_cases()) check(s, Where::gpu);
}

TEST(cuda_gemm_emulated, volumes_and_lines_equal_sums) {
  if (std::string why = emulation_missing(); !why.empty()) GTEST_SKIP() << why;
  check_some(other_rank_cases());
}

TEST(cuda_gemm, volumes_and_lines_equal_sums) {
  if (std::string why = gpu_missing(); !why.empty()) GTEST_SKIP() << why;
  for (const GemmCase& s : other_rank_cases()) check(s, Where::gpu);
}

TEST(cuda_gemm_emulated, im2col_3d_equals_sums) {
  if (std::string why = emulation_missing(); !why.empty()) GTEST_SKIP() << why;
  for (const GemmCase& s : some(volume_cases(), 32)) {
    check(s, Where::late);
    if (s.multiprocessors > 1) check(s, Where::early);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(cuda_gemm, im2col_3d_equals_sums) {
  if (std::string why = gpu_missing(); !why.empty()) GTEST_SKIP() << why;
  for (const GemmCase& s : volume_cases()) check(s, Where::gpu);
}

TEST(cuda_gemm_emulated, rows_of_several_axes_equal_sums) {
  if (std::string why = emulation_missing(); !why.empty()) GTEST_SKIP() << why;
  check_some(row_axes_cases());
}

TEST(cuda_gemm, rows_of_several_axes_equal_sums) {
  if (std::string why = gpu_missing(); !why.empty()) GTEST_SKIP() << why;
  for (const GemmCase& s : row_axes_cases()) check(s, Where::gpu);
}

TEST(cuda_gemm_emulated, int8_equals_sums) {
  if (std::string why = emulation_missing(); !why.empty()) GTEST_SKIP() << why;
  check_some(encoded_cases());
}

TEST(cuda_gemm, int8_equals_sums) {
  if (std::string why = gpu_missing(); !why.empty()) GTEST_SKIP() << why;
  for (const GemmCase& s : encoded_cases()) check(s, Where::gpu);
  for (DType type : {DType::f16, DType::bf16}) {
    for (GemmCase s : {plain(1, 4104, 4096, true, type), plain(16, 1032, 4096, true, type), plain(300, 1160, 520, true, type)}) {
      s.encoded = true;
      check(s, Where::gpu);
    }
  }
}

// Independent of the cost model's choice.
GemmCase gated(GemmCase s) {
  s.n /= 2;
  s.gated = true;
  s.name += ", gated epilogue";
  return s;
}

// Rows that are gated: without the copying unit, at odd addresses, and few.
std::vector<GemmCase> gated_sites() {
  std::vector<GemmCase> out;
  for (bool shifted : {false, true}) {
    for (GemmCase s : {gated(plain(130, 272, 200, true)), gated(plain(3, 80, 72, true, DType::bf16)), gated(plain(70, 144, 88, true)), gated(plain(1, 80, 2072, true))}) {
      s.shifted = shifted;
      if (shifted) s.name += ", odd addresses";
      out.push_back(s);
    }
  }
  return out;
}

TEST(cuda_gemm_emulated, few_rows_equal_sums) {
  if (std::string why = emulation_missing(); !why.empty()) GTEST_SKIP() << why;
  for (const GemmCase& s : some(skinny_cases(), 3)) check(s, Where::early);
}

TEST(cuda_gemm, few_rows_equal_sums) {
  if (std::string why = gpu_missing(); !why.empty()) GTEST_SKIP() << why;
  for (const GemmCase& s : skinny_cases()) check(s, Where::gpu);
  check(plain(2, 9216, 1536, true), Where::gpu);
  check(plain(4, 4096, 4096, true, DType::bf16), Where::gpu);
}

TEST(cuda_gemm_emulated, parts_equal_sums) {
  if (std::string why = emulation_missing(); !why.empty()) GTEST_SKIP() << why;
  for (const GemmCase& s : some(parts_cases(), 2)) {
    for (Where where : {Where::early, Where::early_groups, Where::late_groups}) {
      if (!s.gated || where != Where::early) check(s, where);
    }
  }
}

TEST(cuda_gemm, parts_equal_sums) {
  if (std::string why = gpu_missing(); !why.empty()) GTEST_SKIP() << why;
  for (const GemmCase& s : parts_cases()) check(s, Where::gpu);
  GemmCase large = plain(1024, 6144, 512, true, DType::bf16);
  large.parts_of_b = {4096, 1024, 1024};
  check(large, Where::gpu);
}

TEST(cuda_gemm_emulated, gated_rows_equal_sums) {
  if (std::string why = emulation_missing(); !why.empty()) GTEST_SKIP() << why;
  for (const GemmCase& s : some(gated_sites(), 3)) {
    for (Where where : {Where::early_groups, Where::late_groups}) check(s, where);
  }
}

TEST(cuda_gemm, gated_rows_equal_sums) {
  if (std::string why = gpu_missing(); !why.empty()) GTEST_SKIP() << why;
  for (const GemmCase& s : gated_sites()) check(s, Where::gpu);
  check(gated(plain(1030, 2 * 1160, 520, true)), Where::gpu);
  check(gated(plain(2048, 2 * 1280, 640, true, DType::bf16)), Where::gpu);
}

void check_large_tiles(std::span<const Where> ways, size_t of) {
  GemmCase strided = convolution(7, 9, 72, 1, 2, 0, 72, false), images = convolution(9, 7, 136, 3, 1, 1, 72, true);
  std::vector<GemmCase> sites = {plain(130, 264, 200, true),
                                 plain(130, 264, 520, false, DType::bf16),
                                 convolution(9, 7, 64, 3, 1, 1, 72, false),
                                 convolution(12, 10, 64, 3, 2, 1, 64, true),
                                 strided,
                                 images,
                                 plain(130, 320, 520, true),
                                 plain(130, 160, 200, false, DType::bf16),
                                 convolution(9, 7, 64, 3, 1, 1, 160, false),
                                 plain(130, 264, 100, true, DType::f32),
                                 gated(plain(130, 528, 200, true)),
                                 gated(plain(130, 528, 520, true, DType::bf16)),
                                 gated(plain(260, 320, 136, true)),
                                 convolution(9, 7, 72, 3, 1, 1, 72, true, DType::f32),
                                 convolution(9, 8, 64, 3, 1, 0, 72, true),
                                 convolution(8, 12, 64, 2, 2, 0, 72, false),
                                 convolution(9, 7, 32, 3, 2, 0, 64, true, DType::f32),
                                 convolution(12, 10, 32, 3, 2, 1, 64, true, DType::f32),
                                 convolution(7, 9, 36, 1, 2, 0, 160, true, DType::f32)};
  for (const GemmCase& s : of == 1 ? sites : some(sites, 2 * of)) {
    for (size_t tile = 0; tile < std::size(kernels::large_tiles); ++tile) {
      // Sites with whole tiles of 160 columns are for that tile.
      if (!kernels::large_tiles[tile].takes(s.n, s.gated, s.type == DType::f32) || (s.n % 160 == 0) != (kernels::large_tiles[tile].columns == 160)) continue;
      GemmCase one = s;
      one.tiles = static_cast<uint16_t>(1u << tile);
      for (Where where : ways) {
        SCOPED_TRACE(fmt::format("tile {}", tile));
        check(one, where);
      }
    }
  }
}

TEST(cuda_gemm_emulated, large_tiles_equal_sums) {
  if (std::string why = emulation_missing(); !why.empty()) GTEST_SKIP() << why;
  check_large_tiles(std::array{Where::early_groups, Where::late_groups}, 20);
}

TEST(cuda_gemm, large_tiles_equal_sums) {
  if (std::string why = gpu_missing(); !why.empty()) GTEST_SKIP() << why;
  check_large_tiles(std::array{Where::gpu}, 1);
}

TEST(cuda_gemm, equals_sums) {
  if (std::string why = gpu_missing(); !why.empty()) GTEST_SKIP() << why;
  for (const GemmCase& s : half_cases()) check(s, Where::gpu);
  for (bool along_k : {false, true}) {
    check(plain(1030, 1160, 520, along_k), Where::gpu);  // large tiles, several blocks per multiprocessor
    check(plain(300, 72, 4104, along_k, DType::bf16), Where::gpu);
  }
  check(plain(1, 4104, 2056, true), Where::gpu);
  for (Prologue prologue : {Prologue::gate, Prologue::norm}) {
    for (int64_t k : {4096, 8192}) {
      GemmCase row = plain(1, 4104, k, true, DType::bf16);
      row.prologue = prologue;
      check(row, Where::gpu);
    }
  }
  for (Prologue prologue : {Prologue::none, Prologue::norm}) {
    GemmCase gated = plain(1, 8208, 4096, true, DType::bf16);
    gated.n = 4104;
    gated.gated = true;
    gated.prologue = prologue;
    check(gated, Where::gpu);
  }
  GemmCase split = plain(1, 6144, 4096, true, DType::bf16);
  split.parts_of_b = {4096, 1024, 1024};
  split.prologue = Prologue::norm;
  check(split, Where::gpu);
  check(convolution(56, 56, 64, 3, 1, 1, 136, false), Where::gpu);
}

}  // namespace
}  // namespace ingot::backend::cuda
