#include "runtime/prepared.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <vector>

#include "base/hash.h"

namespace ingot::runtime {

Prepared& Prepared::all() {
  static auto* values = new Prepared();  // weights may outlive static objects
  return *values;
}

Prepared::Key Prepared::key_of(const std::byte* data, size_t bytes) {
  constexpr size_t samples = 16, sample = 256;
  uint64_t hash = 0;
  for (size_t i = 0; i < samples; ++i) hash = hash64({data + (bytes - std::min(bytes, sample)) / (samples - 1) * i, std::min(bytes, sample)}, hash);
  return {bytes, hash};
}

Prepared::Value Prepared::find(const std::byte* data, size_t bytes, const Allocator& from) {
  std::vector<Value> perhaps;
  {
    const Key key = key_of(data, bytes);
    std::lock_guard lock(mutex_);
    for (auto [at, end] = entries_.equal_range(key); at != end; ++at) {
      if (at->second.from != &from || at->second.data == data) continue;
      if (auto owner = at->second.owner.lock()) perhaps.push_back({std::move(owner), at->second.data});
    }
  }
  for (Value& v : perhaps) {
    if (std::memcmp(v.data, data, bytes) == 0) return std::move(v);
  }
  return {};
}

void Prepared::add(const Value& value, size_t bytes, const Allocator& from) {
  const Key key = key_of(value.data, bytes);
  std::lock_guard lock(mutex_);
  if (entries_.size() >= look_again_) drop_expired();
  entries_.emplace(key, Entry{value.owner, value.data, &from});
}

void Prepared::drop_expired() {
  std::erase_if(entries_, [](const auto& e) { return e.second.owner.expired(); });
  look_again_ = std::max(min_entries, 2 * entries_.size());
}

}  // namespace ingot::runtime
