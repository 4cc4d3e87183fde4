// Which instruction set kernels use on this machine.
#pragma once

namespace ingot::backend::cpu {

enum class Isa { portable, avx2, avx512, avx512_bf16, amx_bf16 };  // each has all of those before it

// The best that the processor and the kernel offer, found once. INGOT_ISA=portable|avx2|avx512|avx512_bf16|amx_bf16 caps it (a debug switch).
Isa isa();
const char* name_of(Isa);

}  // namespace ingot::backend::cpu
