// The prepared values of all weights of the process, so that equal ones are in memory once: several graphs of a model prepare the same of the same tensors.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "base/buffer.h"
#include "base/fork.h"

namespace ingot::runtime {

// Values in memory that the host reads. Nobody writes to one while somebody holds its owner. Any thread may call.
class Prepared {
 public:
  // Smaller ones are not worth a look.
  static constexpr size_t least_bytes = size_t{64} << 10;
  struct Value {
    std::shared_ptr<const void> owner;  // null: there is none
    std::byte* data = nullptr;
  };
  // A value that was added, of the same bytes and in memory of the same allocator.
  Value find(const std::byte* data, size_t bytes, const Allocator& from);
  // It is not kept alive.
  void add(const Value&, size_t bytes, const Allocator& from);
  // Of this process.
  static Prepared& all();

 private:
  struct Entry {
    std::weak_ptr<const void> owner;
    std::byte* data;
    const Allocator* from;
  };
  using Key = std::pair<size_t, uint64_t>;  // the size, and a hash of samples
  static Key key_of(const std::byte* data, size_t bytes);
  void drop_expired();

  Mutex mutex_;
  std::multimap<Key, Entry> entries_;
  static constexpr size_t min_entries = 64;
  size_t look_again_ = min_entries;  // entries at which expired ones are dropped
};

}  // namespace ingot::runtime
