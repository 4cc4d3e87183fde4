// Times of the ways to sort a line and to choose its least keys, for the numbers of tuning.h, and that they agree. The times are for INGOT_MEASURE=1:
//   INGOT_MEASURE=1 test_backend_cpu --gtest_filter=sort.speed
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <random>
#include <vector>

#include "backend/cpu/kernels/sort/run/select.h"

namespace ingot::kernels {
namespace {

// The fewest nanoseconds of some calls; one call without INGOT_MEASURE.
template <class F>
double fastest(F work) {
  double best = std::numeric_limits<double>::infinity();
  for (int rounds = std::getenv("INGOT_MEASURE") != nullptr ? 200 : 1; rounds > 0; --rounds) {
    const auto start = std::chrono::steady_clock::now();
    work();
    best = std::min(best, std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

template <class Item>
bool equal(const std::vector<Item>& a, const std::vector<Item>& b, int64_t n) {
  return std::equal(a.begin(), a.begin() + n, b.begin(), [](const Item& x, const Item& y) { return x.key() == y.key() && x.position() == y.position(); });
}

// A line of keys below `range`.
template <class Item>
void sort_lines(int64_t n, uint64_t range) {
  std::mt19937_64 random(1);
  std::vector<Item> line, compared, counted(static_cast<size_t>(n)), other(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) line.push_back(Item::of(static_cast<typename Item::Key>(random() % range), i));
  const double compare = fastest([&] {
    compared = line;
    std::sort(compared.begin(), compared.end());
  });
  const double count = fastest([&] {
    counted = line;
    sort_by_bytes(counted.data(), other.data(), n);
  });
  ASSERT_TRUE(equal(compared, counted, n));
  std::printf("%4lld keys of %zu bytes below %.0e: compared %6.0f ns, by bytes %6.0f ns\n", static_cast<long long>(n), sizeof(typename Item::Key), static_cast<double>(range),
              compare, count);
}

void choose_least(int64_t length, int64_t k) {
  std::mt19937_64 random(2);
  std::vector<uint32_t> line(static_cast<size_t>(length));
  for (uint32_t& key : line) key = static_cast<uint32_t>(random());
  auto keys = [&](uint32_t* to, int64_t begin, int64_t n) { std::copy_n(line.data() + begin, n, to); };
  std::vector<NarrowItem> inserted(line.size()), selected(line.size()), whole(line.size()), other(line.size());
  const double insert = fastest([&] { insert_least(inserted.data(), length, k, keys); });
  const double select = fastest([&] { select_least(selected.data(), other.data(), length, k, std::min(length, sort_cpu_tuning::kept_share * k), keys); });
  const double sort = fastest([&] {
    for (int64_t i = 0; i < length; ++i) whole[static_cast<size_t>(i)] = NarrowItem::of(line[static_cast<size_t>(i)], i);
    sort_by_bytes(whole.data(), other.data(), length);
  });
  ASSERT_TRUE(equal(inserted, whole, k) && equal(selected, whole, k));
  std::printf("%4lld of %5lld: inserted %7.0f ns, selected %7.0f ns, sorted %7.0f ns\n", static_cast<long long>(k), static_cast<long long>(length), insert, select, sort);
}

TEST(sort, speed) {
  for (uint64_t range : {uint64_t{1000}, uint64_t{UINT32_MAX}}) {
    for (int64_t n : {32, 64, 96, 128, 192, 256, 512}) {
      sort_lines<NarrowItem>(n, range);
      sort_lines<WideItem>(n, range == 1000 ? range : UINT64_MAX);
    }
  }
  for (int64_t length : {1000, 10000}) {
    for (int64_t k : {8, 16, 32, 64, 250}) choose_least(length, k);
  }
}

}  // namespace
}  // namespace ingot::kernels
