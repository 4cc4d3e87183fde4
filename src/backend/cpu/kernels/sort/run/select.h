// Sorts positions by keys, and chooses those of the least keys. Of equal keys the first position comes first.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "backend/cpu/kernels/sort/run/block_keys.h"
#include "backend/cpu/kernels/sort/run/tuning.h"

namespace ingot::kernels {

// A key of four bytes above its position.
struct NarrowItem {
  using Key = uint32_t;
  uint64_t both;
  static NarrowItem of(Key key, int64_t position) { return {uint64_t{key} << 32 | static_cast<uint32_t>(position)}; }
  Key key() const { return static_cast<Key>(both >> 32); }
  int64_t position() const { return static_cast<uint32_t>(both); }
  bool operator<(const NarrowItem& other) const { return both < other.both; }
};
struct WideItem {
  using Key = uint64_t;
  Key number;
  int64_t at;
  static WideItem of(Key key, int64_t position) { return {key, position}; }
  Key key() const { return number; }
  int64_t position() const { return at; }
  bool operator<(const WideItem& other) const { return number != other.number ? number < other.number : at < other.at; }
};

// Sorts n items in the order of their positions by one byte of their keys after another, the lowest first. A byte that is the same in all keys is left out. `other`: memory for as many.
template <class Item>
void sort_by_bytes(Item* items, Item* other, int64_t n) {
  constexpr size_t digits = sizeof(typename Item::Key);
  uint32_t counts[digits][256] = {};
  for (int64_t i = 0; i < n; ++i) {
    const auto key = items[i].key();
    for (size_t d = 0; d < digits; ++d) ++counts[d][key >> 8 * d & 255];
  }
  Item *from = items, *to = other;
  for (size_t d = 0; d < digits; ++d) {
    if (counts[d][items[0].key() >> 8 * d & 255] == n) continue;
    uint32_t begin = 0;
    for (uint32_t& count : counts[d]) begin += std::exchange(count, begin);
    for (int64_t i = 0; i < n; ++i) to[counts[d][from[i].key() >> 8 * d & 255]++] = from[i];
    std::swap(from, to);
  }
  if (from != items) std::memcpy(static_cast<void*>(items), from, static_cast<size_t>(n) * sizeof(Item));
}

// Sorts n items, in the order of their positions if `in_order`. `other`: memory for as many.
template <class Item>
void sort_items(Item* items, Item* other, int64_t n, bool in_order) {
  if (n <= sort_cpu_tuning::max_compared || !in_order) return std::sort(items, items + n);
  sort_by_bytes(items, other, n);
}

template <class Key>
bool any_below(const Key* keys, Key limit, int64_t n) {
  if constexpr (sizeof(Key) == 4) return key_ops().any_below(keys, limit, n);
  return key_ops().any_below_wide(reinterpret_cast<const uint64_t*>(keys), limit, n);
}

// Calls fn(key, position) for keys of a line in order, at least for those that are below `limit` when they come, while `limited`. `keys(to, begin, n)` makes n of them.
template <class Key, class Keys, class F>
void for_keys(int64_t length, Keys keys, const Key& limit, const bool& limited, F fn) {
  constexpr int64_t block = sort_cpu_tuning::keys_at_once;
  for (int64_t begin = 0; begin < length; begin += block) {
    Key line[block];
    const int64_t n = std::min(block, length - begin);
    keys(line, begin, n);
    if (limited && !any_below(line, limit, n)) continue;
    for (int64_t i = 0; i < n; ++i) fn(line[i], begin + i);
  }
}

// The k least of a line's keys in order: each takes its place among those that are kept.
template <class Item, class Keys>
void insert_least(Item* items, int64_t length, int64_t k, Keys keys) {
  typename Item::Key limit = 0;
  bool limited = false;
  int64_t kept = 0;
  for_keys(length, keys, limit, limited, [&](typename Item::Key key, int64_t at) {
    if (limited && key >= limit) return;
    int64_t place = kept < k ? kept++ : k - 1;
    for (; place > 0 && items[place - 1].key() > key; --place) items[place] = items[place - 1];
    items[place] = Item::of(key, at);
    limited = kept == k;
    limit = items[k - 1].key();
  });
}

// The same: those below the k-th of the keys seen so far are kept; when there are `room` of them, all but the k least are dropped.
template <class Item, class Keys>
void select_least(Item* items, Item* other, int64_t length, int64_t k, int64_t room, Keys keys) {
  typename Item::Key limit = 0;
  bool limited = false;
  int64_t kept = 0;
  auto drop = [&] {
    std::nth_element(items, items + k - 1, items + kept);
    kept = k;
    limit = items[k - 1].key();
    limited = true;
  };
  for_keys(length, keys, limit, limited, [&](typename Item::Key key, int64_t at) {
    if (limited && key >= limit) return;
    items[kept++] = Item::of(key, at);
    if (kept == room) drop();
  });
  if (kept > k) drop();
  sort_items(items, other, k, false);
}

// The k least of a line's keys, sorted, as the first items. `items` and `other` hold the line's length each.
template <class Item, class Keys>
void least_items(Item* items, Item* other, int64_t length, int64_t k, Keys keys) {
  if (sort_cpu_tuning::sorted_share * k >= length) {
    const bool limited = false;
    for_keys(length, keys, typename Item::Key{0}, limited, [&](typename Item::Key key, int64_t at) { items[at] = Item::of(key, at); });
    return sort_items(items, other, length, true);
  }
  if (k <= sort_cpu_tuning::max_inserted) return insert_least(items, length, k, keys);
  select_least(items, other, length, k, std::min(length, sort_cpu_tuning::kept_share * k), keys);
}

}  // namespace ingot::kernels
