// Keys of elements for sorting: unsigned numbers in the order of the elements, NaN the largest, both zeros equal. One table per instruction set.
#pragma once
#include <cstddef>
#include <cstdint>

#include "ir/dtype.h"

namespace ingot::kernels {

struct KeyOps {
  // to[i] = the key of from[i * stride]; `flip` is added to each by exclusive or. Types of up to four bytes.
  void (*narrow)(ir::DType, uint32_t* to, const void* from, int64_t stride, uint32_t flip, int64_t n);
  void (*wide)(ir::DType, uint64_t* to, const void* from, int64_t stride, uint64_t flip, int64_t n);  // of eight
  // True if one of n keys is below the limit.
  bool (*any_below)(const uint32_t* keys, uint32_t limit, int64_t n);
  bool (*any_below_wide)(const uint64_t* keys, uint64_t limit, int64_t n);
};

const KeyOps& key_ops();  // for this machine

extern const KeyOps key_ops_portable;
extern const KeyOps key_ops_avx2;
extern const KeyOps key_ops_avx512;

}  // namespace ingot::kernels
