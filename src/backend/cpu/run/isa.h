// The instruction set that kernels use on this machine.
#pragma once

namespace ingot::backend::cpu {

enum class Isa { portable, avx2, avx512, avx512_bf16, amx_bf16 };  // each includes all before it

// The best one that the processor and the operating system support, detected once.
// INGOT_ISA=portable|avx2|avx512|avx512_bf16|amx_bf16 limits it (for debugging).
Isa isa();
// Without regard to INGOT_ISA.
Isa best_isa();
const char* name_of(Isa);

}  // namespace ingot::backend::cpu
