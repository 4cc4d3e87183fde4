// Aligned memory from an allocator that a caller may replace, so that each allocation can be made to fail.
#pragma once
#include <cstddef>
#include <cstdlib>
#include <new>
#include <utility>

#include "base/huge_pages.h"

namespace ingot {

class Allocator {
 public:
  virtual ~Allocator() = default;
  // Memory aligned to 64 bytes (2 MiB and more: to 2 MiB, so that huge pages can back it); throws std::bad_alloc.
  virtual void* allocate(size_t bytes) = 0;
  virtual void release(void* memory, size_t bytes) noexcept = 0;
};

inline Allocator& system_allocator() {
  class System final : public Allocator {
    void* allocate(size_t bytes) override {
      size_t alignment = bytes >= huge_page ? huge_page : 64;
      void* p = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
      if (p == nullptr) throw std::bad_alloc();
      ask_for_huge_pages(p, bytes);
      return p;
    }
    void release(void* memory, size_t) noexcept override { std::free(memory); }
  };
  static System system;
  return system;
}

class MemoryBlock {
 public:
  MemoryBlock() = default;
  MemoryBlock(size_t bytes, Allocator& from) : data_(bytes > 0 ? static_cast<std::byte*>(from.allocate(bytes)) : nullptr), size_(bytes), from_(&from) {}
  MemoryBlock(MemoryBlock&& o) noexcept { swap(o); }
  MemoryBlock& operator=(MemoryBlock&& o) noexcept {
    swap(o);
    return *this;
  }
  ~MemoryBlock() {
    if (data_ != nullptr) from_->release(data_, size_);
  }
  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  void swap(MemoryBlock& o) noexcept {
    std::swap(data_, o.data_);
    std::swap(size_, o.size_);
    std::swap(from_, o.from_);
  }
  std::byte* data_ = nullptr;
  size_t size_ = 0;
  Allocator* from_ = nullptr;
};

}  // namespace ingot
