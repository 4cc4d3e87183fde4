// Scatters large enough for several threads, of every type, against a loop.
#include <gtest/gtest.h>

#include <random>

#include "backend/cpu/kernels/kernel_test.h"
#include "kernels/scatter/run/scatter_args.h"

namespace ingot::kernels {
namespace {

using ir::DType;
using Kind = ScatterArgs::Kind;

double combined(Kind kind, double a, double b) {
  switch (kind) {
    case Kind::set: return b;
    case Kind::add: return a + b;
    case Kind::mul: return a * b;
    case Kind::max: return std::max(a, b);
    default: return std::min(a, b);
  }
}

class RandomScatter {
 public:
  explicit RandomScatter(unsigned seed) : random_(seed) {}

  // Updates [n, m] go to rows, columns or single elements of a matrix.
  void run(DType type, Kind kind) {
    const bool along = pick(0, 1) == 0, wrap = pick(0, 3) == 0;
    const int64_t axis = pick(0, 1), n = sizes[pick(0, 4)], m = sizes[pick(0, 4)], rows = axis == 0 ? pick(1, 70) : n, columns = axis == 1 ? pick(1, 70) : m;
    const bool one_for_all = along && pick(0, 1) == 0;  // of a line
    TestTensor updates(type, {n, m}, {}, {}, pick(0, 1)), out(type, {rows, columns}, {}, {}, pick(0, 1));
    TestTensor index = !along        ? TestTensor(DType::i64, {axis == 0 ? n : m})
                       : one_for_all ? TestTensor(DType::i64, {n, m}, {}, {static_cast<size_t>(1 - axis)})
                                     : TestTensor(DType::i64, {n, m});
    const int64_t extent = axis == 0 ? rows : columns;
    // Of a set the last update stays; of products of ones no digit is lost.
    updates.each([&](const std::vector<int64_t>& at) { updates.put(at, kind == Kind::mul ? 1.0 - 2.0 * static_cast<double>(pick(0, 1)) : static_cast<double>(pick(-1, 1))); });
    out.each([&](const std::vector<int64_t>& at) { out.put(at, static_cast<double>(pick(-3, 3))); });
    index.each([&](const std::vector<int64_t>& at) { index.put(at, static_cast<double>(pick(wrap ? -extent : 0, extent - 1))); });
    TestTensor want = out;
    updates.each([&](const std::vector<int64_t>& at) {
      std::vector<int64_t> to = at;
      const double i = index.get(along ? at : std::vector<int64_t>{at[static_cast<size_t>(axis)]});
      to[static_cast<size_t>(axis)] = static_cast<int64_t>(i) + (i < 0 ? extent : 0);
      want.put(to, combined(kind, want.get(to), updates.get(at)));
    });
    const auto constants = serialise(ScatterArgs{kind, wrap, static_cast<uint8_t>(along ? 0 : axis), {static_cast<uint8_t>(axis)}});
    run_kernel(along ? "scatter_along" : "scatter", constants, along ? std::vector<TestTensor*>{&index, &updates, &out} : std::vector<TestTensor*>{&updates, &index, &out}, {},
               three());
    ASSERT_TRUE(out.untouched_outside());
    ASSERT_EQ(out.values(), want.values()) << n << " x " << m << " along " << axis;
  }

 private:
  static constexpr int64_t sizes[] = {1, 7, 40, 300, 900};
  int64_t pick(int64_t from, int64_t to) { return std::uniform_int_distribution<int64_t>(from, to)(random_); }
  std::mt19937 random_;
};

TEST(scatter, random_updates) {
  const DType types[] = {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i8, DType::i32, DType::i64};
  for (unsigned seed = 0; seed < 210; ++seed) {
    SCOPED_TRACE(seed);
    RandomScatter(seed).run(types[seed % 7], static_cast<Kind>(seed / 7 % 5));
    if (::testing::Test::HasFatalFailure()) return;
  }
}

// Many halves that go to one place are added up in floats: a sum that was rounded with each of them would stop growing.
TEST(scatter, halves_are_rounded_once) {
  for (DType type : {DType::bf16, DType::f16}) {
    for (bool along : {false, true}) {
      constexpr int64_t n = 5000, columns = 9;
      TestTensor updates(type, {n, columns}), out(type, {2, columns}, {1, 0});
      TestTensor index(DType::i64, along ? std::vector<int64_t>{n, columns} : std::vector<int64_t>{n});
      updates.each([&](const std::vector<int64_t>& at) { updates.put(at, 0.25 + static_cast<double>(at[1]) / 16); });
      out.each([&](const std::vector<int64_t>& at) { out.put(at, static_cast<double>(at[1])); });
      index.each([&](const std::vector<int64_t>& at) { index.put(at, static_cast<double>(at[0] % 2)); });
      const auto constants = serialise(ScatterArgs{Kind::add, false, 0, {0}});
      run_kernel(along ? "scatter_along" : "scatter", constants, along ? std::vector<TestTensor*>{&index, &updates, &out} : std::vector<TestTensor*>{&updates, &index, &out}, {},
                 three());
      out.each([&](const std::vector<int64_t>& at) {
        TestTensor once(type, {1});
        once.put({0}, static_cast<double>(at[1]) + n / 2 * (0.25 + static_cast<double>(at[1]) / 16));
        EXPECT_EQ(out.get(at), once.get({0})) << ir::name_of(type);
      });
      EXPECT_TRUE(out.untouched_outside());
    }
  }
}

}  // namespace
}  // namespace ingot::kernels
