#include "ir/compose.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/error.h"

namespace ingot::ir {
namespace {

Handle input(Graph& g, Dims dims, DType t = DType::f32) { return {&g, g.add_input("x" + std::to_string(g.inputs.size()), {t, std::move(dims)})}; }

Operand operand(Graph& g, const std::string& kind) {
  if (kind == "n:bool") return Operand(true);
  if (kind == "n:int") return Operand(int64_t{3});
  if (kind == "n:float") return Operand(2.5);
  DType t = *dtype_from_name(kind.substr(2));
  return Operand(input(g, kind[0] == 't' ? Dims{2} : Dims{}, t));
}

// The table is what torch.result_type says (testdata/result_type.py).
TEST(Compose, PromotionIsTorchs) {
  std::ifstream f(std::string(INGOT_SOURCE_DIR) + "/src/ir/testdata/result_type.txt");
  std::string left, right, want;
  int lines = 0;
  for (; f >> left >> right >> want; ++lines) {
    Graph g;
    std::vector<Operand> both{operand(g, left), operand(g, right)};
    EXPECT_EQ(name_of(result_type(both)), want) << left << " with " << right;
    EXPECT_EQ(name_of(map(Op::mul, both).dtype()), want) << left << " * " << right;
  }
  EXPECT_EQ(lines, 520);
}

TEST(Compose, NumbersStayWeak) {
  Graph g;
  Handle h = input(g, {4}, DType::f16);
  EXPECT_EQ((h * 2.0 + 1).dtype(), DType::f16);
  Handle number = literal(g, 2.0, DType::f64);
  EXPECT_EQ((h * number).dtype(), DType::f16);
  EXPECT_EQ((h * input(g, {}, DType::f64)).dtype(), DType::f16);
  Handle i = input(g, {4}, DType::i32);
  EXPECT_EQ((i / 2).dtype(), DType::f32);
  EXPECT_EQ((i * 2.5).dtype(), DType::f32);
  EXPECT_EQ(mean(to_float(i), {0}).dtype(), DType::f32);
  EXPECT_EQ(sum(i, {0}).dtype(), DType::i64);
  EXPECT_EQ(exp(i).dtype(), DType::f32);
  // Negative numbers wrap to unsigned ones; what does not fit is an error, as in torch.
  EXPECT_EQ(g.producer(literal(g, -3, DType::u8).id()).attributes.integer("value"), 253);
  EXPECT_THROW(literal(g, 300, DType::u8), Error);
  EXPECT_THROW(literal(g, 1e300, DType::i64), Error);
}

struct Sizes : ::testing::Test {
  Graph g;
  Dim B, S;
  Sizes() {
    g.symbols = {{"B", 1, 8, 64}, {"S", 1, 16, 512}};
    B = Dim::symbol(0);
    S = Dim::symbol(1);
  }
  std::string text(const Dims& d) {
    std::string s;
    for (const Dim& x : d) s += (s.empty() ? "" : ", ") + x.text(g.symbols);
    return "[" + s + "]";
  }
  std::string slices(std::optional<Dim> from, std::optional<Dim> to, int64_t step = 1) { return text(slice(input(g, {B, S}), 1, from, to, step).dims()); }
};

TEST_F(Sizes, SliceHasPythonsRules) {
  EXPECT_EQ(slices({}, {}), "[B, S]");
  EXPECT_EQ(slices(0, INT64_MAX), "[B, S]");
  EXPECT_EQ(slices(0, 1), "[B, 1]");
  EXPECT_EQ(slices(-1, {}), "[B, 1]");
  EXPECT_EQ(slices({}, -1), "[B, S - 1]");
  EXPECT_EQ(slices(0, 5), "[B, min(S, 5)]");
  EXPECT_EQ(slices(2, {}), "[B, max(0, S - 2)]");
  EXPECT_EQ(slices({}, S - 1), "[B, S - 1]");
  EXPECT_EQ(slices(0, S + 3), "[B, S]");
  EXPECT_EQ(slices({}, {}, 2), "[B, -floordiv(-S, 2)]");
  EXPECT_EQ(slices(3, 1), "[B, max(0, -min(S, 3) + 1)]");
  EXPECT_THROW(slices(0, 1, 0), Error);
  EXPECT_EQ(text(slice(input(g, {7}), 0, Dim(-3), Dim(100), 2).dims()), "[2]");
  EXPECT_EQ(text(slice(input(g, {7}), 0, Dim(5), Dim(2), 1).dims()), "[0]");
}

TEST_F(Sizes, ReshapeFillsInSizes) {
  Handle x = input(g, {B, S, 384});
  EXPECT_EQ(text(reshape(x, {B, S, 12, -1}).dims()), "[B, S, 12, 32]");
  EXPECT_EQ(text(reshape(x, {-1, 384}).dims()), "[B*S, 384]");
  EXPECT_EQ(text(reshape(reshape(x, {-1, 384}), {B, -1, 12, 32}).dims()), "[B, S, 12, 32]");
  EXPECT_TRUE(g.checks.empty());
  EXPECT_EQ(reshape(x, {B, S, 384}).id(), x.id());
  EXPECT_THROW(reshape(x, {-1, -1}), Error);
  EXPECT_THROW(reshape(input(g, {7}), {2, -1}), Error);
  EXPECT_THROW(reshape(input(g, {6}), {2, 4}), Error);
  reshape(x, {S, S, 384});
  reshape(x, {S, S, 384});
  ASSERT_EQ(g.checks.size(), 1u);  // taken on trust once, checked at run time
  EXPECT_THROW(reshape(x, {B, S, 383}), Error);
}

TEST_F(Sizes, UndecidedSizesBecomeOneCheck) {
  Handle y = input(g, {B}) + input(g, {S});
  input(g, {S}) * input(g, {B});
  ASSERT_EQ(g.checks.size(), 1u);
  EXPECT_EQ(text(y.dims()), "[B]");
  EXPECT_EQ(text((input(g, {B, 1}) + input(g, {S})).dims()), "[B, S]");
  EXPECT_EQ(text(concat({input(g, {B, 3}), input(g, {S, 3})}, 0).dims()), "[B + S, 3]");
  EXPECT_EQ(g.checks.size(), 1u);
  concat({input(g, {B, 3}), input(g, {2 * S, 3})}, 1);
  EXPECT_EQ(g.checks.size(), 2u);
  EXPECT_THROW(input(g, {3}) + input(g, {4}), Error);
  EXPECT_THROW(input(g, {B}) + input(g, {65}), Error);
}

TEST_F(Sizes, MatmulHasTorchsRanks) {
  EXPECT_EQ(text(matmul(input(g, {3}), input(g, {3})).dims()), "[]");
  EXPECT_EQ(text(matmul(input(g, {B, 3}), input(g, {3})).dims()), "[B]");
  EXPECT_EQ(text(matmul(input(g, {3}), input(g, {3, S})).dims()), "[S]");
  EXPECT_EQ(text(matmul(input(g, {3}), input(g, {B, 3, S})).dims()), "[B, S]");
  EXPECT_EQ(text(matmul(input(g, {B, 1, S, 3}), input(g, {7, 3, 2})).dims()), "[B, 7, S, 2]");
  EXPECT_EQ(text(matmul(input(g, {B, 2, 3}), input(g, {3})).dims()), "[B, 2]");
  EXPECT_TRUE(g.checks.empty());
  EXPECT_THROW(matmul(input(g, {2, 3}), input(g, {4, 2})), Error);
  EXPECT_THROW(matmul(input(g, {}), input(g, {4, 2})), Error);
  matmul(input(g, {2, B}), input(g, {S, 2}));
  EXPECT_EQ(g.checks.size(), 1u);
}

TEST_F(Sizes, ViewsCompose) {
  Handle x = input(g, {B, S, 6});
  EXPECT_EQ(text(transpose(x, 0, -1).dims()), "[6, S, B]");
  EXPECT_EQ(text(expand(input(g, {B, 1}), {4, -1, S}).dims()), "[4, B, S]");
  EXPECT_EQ(text(unsqueeze(x, -1).dims()), "[B, S, 6, 1]");
  EXPECT_EQ(squeeze(x, 0).id(), x.id());
  EXPECT_EQ(g.checks.size(), 1u);  // B is not 1
  EXPECT_EQ(permute(x, {0, 1, 2}).id(), x.id());
  EXPECT_THROW(permute(x, {0, 0, 1}), Error);
  EXPECT_THROW(x.dim(3), Error);
  EXPECT_EQ(text(take(x, 2, -1).dims()), "[B, S]");
  EXPECT_THROW(take(x, 2, 6), Error);
  take(x, 1, 4);
  EXPECT_EQ(g.checks.size(), 2u);  // S may be 4 or less
  EXPECT_EQ(text(pad(x, {0, 1, 0}, {0, 2, -1}, 0.0).dims()), "[B, S + 3, 5]");
  EXPECT_EQ(text(flatten(x, 0, 1).dims()), "[B*S, 6]");

  AffineMap there = permute_map({B, S, 6}, {2, 0, 1}), back = permute_map({6, B, S}, {1, 2, 0});
  EXPECT_TRUE(is_identity(compose(back, there), {B, S, 6}));
  AffineMap part = compose(slice_map({S, 6}, 0, 1, 4, 2), slice_map({B, 6}, 0, 3, S, 5));
  EXPECT_EQ(part.axes[0].offset, Dim(3 + 5));
  EXPECT_EQ(part.axes[0].terms[0].coefficient, 10);
}

// What is the same on the bits of signed integers is a node, conversions and orders are made of signed ones, and the rest is refused.
TEST(Compose, WideUnsignedIntegersAreBits) {
  for (DType t : {DType::u16, DType::u32, DType::u64}) {
    Graph g;
    Handle x = input(g, {4}, t);
    EXPECT_EQ((x * 3).dtype(), t);
    EXPECT_EQ((x & x).dtype(), t);
    EXPECT_EQ(equal(x, 65535).dtype(), DType::b8);
    EXPECT_EQ(sort(x, 0, false, false).first.dtype(), t);
    EXPECT_EQ((x + 0.5).dtype(), DType::f32);
    EXPECT_EQ(sum(x, {0}, drop).dtype(), DType::i64);
    EXPECT_THROW(x + 1, Error);
    EXPECT_THROW(x < 3, Error);
    EXPECT_THROW(reduce("max", x, {0}, drop), Error);
    EXPECT_THROW(x * input(g, {4}, DType::i64), Error);
    EXPECT_THROW(verify(g, Level::canonical), Error);
  }
}

TEST_F(Sizes, PrimitivesRefuseOtherTypes) {
  Handle i = input(g, {2}, DType::i64), f = input(g, {2});
  EXPECT_THROW(infer(g, Op::exp, {i.id()}, {}), Error);
  EXPECT_THROW(infer(g, Op::add, {i.id(), f.id()}, {}), Error);
  EXPECT_THROW(infer(g, Op::bit_and, {f.id(), f.id()}, {}), Error);
  EXPECT_THROW(infer(g, Op::add, {f.id()}, {}), Error);
  EXPECT_THROW(infer(g, Op::select, {f.id(), f.id(), f.id()}, {}), Error);
  EXPECT_THROW(infer(g, Op::reduce, {f.id()}, {{"kind", "median"}, {"axes", List{}}, {"keep", false}}), Error);
}

}  // namespace
}  // namespace ingot::ir
