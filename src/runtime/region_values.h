// The values of a function with regions: its bindings, and what its regions hand to one another.
#pragma once
#include <span>
#include <vector>

#include "plan/plan.h"
#include "runtime/program.h"

namespace ingot::runtime {

// Which bindings have sizes that are read from data.
struct OpenSizes {
  explicit OpenSizes(const plan::Function&);
  // Sets the symbols that are read from data to their upper bounds.
  void bound(std::vector<int64_t>& symbols) const;

  const plan::Function& function;
  std::vector<bool> open, bounded;  // per binding; bounded: no size is without an upper bound
};

class RegionValues {
 public:
  struct Value {
    std::byte* data = nullptr;
    size_t room = 0;  // bytes that the caller gave; of bindings
    std::vector<int64_t> dims;
    uint32_t block = UINT32_MAX;  // index in blocks_; of intermediate values
  };
  explicit RegionValues(const plan::Function&);
  const OpenSizes& open_sizes() const { return open_; }
  Value& operator[](size_t value) { return values_[value]; }
  const Value& operator[](size_t value) const { return values_[value]; }
  bool is_binding(uint32_t value) const { return value < f_.bindings.size(); }
  int64_t size(plan::SizeRef size) const { return sizes_[size]; }
  // Symbols, as they are known when the run begins and as they are read.
  void begin(std::span<const int64_t> symbols);
  void set_symbol(uint32_t symbol, int64_t value);
  // Evaluates the dims of a value at the current symbols.
  void set_dims(uint32_t value);
  // Error (invalid_input) if it is too large.
  size_t bytes_of(uint32_t value) const;
  // Gives an intermediate value memory for its dims.
  void allocate(uint32_t value, Allocator&);
  // Exchanges the memory of two intermediate values.
  void swap(uint32_t x, uint32_t y);
  void free() noexcept;

 private:
  void place_blocks();

  const plan::Function& f_;
  OpenSizes open_;
  std::vector<int64_t> symbols_, sizes_;
  std::vector<Value> values_;
  std::vector<MemoryBlock> blocks_;  // each for values that are never needed at the same time
};

}  // namespace ingot::runtime
