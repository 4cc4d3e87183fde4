// The byte code of a fused body, as stored in a plan's step constants.
//
// Little-endian, no padding between fields beyond what is shown:
//   u32 magic, u8 domain rank, u8 row rank (and fused_in_order), u8 operands, u8 stores, u32 instruction count, u32 size count
//   per operand:      u8 dtype, u8 gathered axes
//   per instruction:  u8 kind, u8 dtype, u8 op, u8 reduction, u8 axis, u8 operand, u8 inputs, u8 guarded axes,
//                     u64 literal bits (double or int64, by dtype), u32 size index, u32 inputs[...], u32 lower[...] (size indices)
//                     A load guards no axis, all of the domain, or twice as many: then the second half is its steps.
//   per store:        u8 operand, u8[3] zero, u32 register
// Registers are SSA: instruction i writes register i and reads lower ones only.
#pragma once
#include <cstddef>
#include <cstdint>

namespace ingot::kernels {

inline constexpr uint32_t fused_magic = 0x31444246;  // "FBD1"
inline constexpr uint8_t fused_in_order = 0x80;      // with the number of row axes: sums take one element after another
inline constexpr size_t max_domain_rank = 12;
inline constexpr size_t max_operands = 250;
inline constexpr int64_t max_guard_step = int64_t{1} << 20;

}  // namespace ingot::kernels
