// A fused body's byte code at run time: verified once at load, then evaluated block by block. Also used as the epilogue
// of matmul (accumulator = the sums) and the mask of attention (accumulator = the scaled score).
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "backend/device.h"

namespace ingot::kernels {

class Program;  // byte code; immutable, shared by threads

// Parses and verifies untrusted byte code against the number of operands and sizes of the step. Error (format).
// Operand k of the body is operand `first_operand + k` of the step; size k likewise.
std::shared_ptr<const Program> load_program(std::span<const std::byte> code, size_t operands, size_t sizes);

struct ProgramInfo {
  int domain_rank = 0, row_rank = 0;
  int operands = 0, stores = 0;   // the last `stores` operands are written
  bool has_reductions = false, has_accumulator = false;
  ir::DType accumulator = ir::DType::f32;
  size_t registers_bytes = 0;     // scratch one worker needs for blocks of up to `block` elements
  // The body only adds a bias row (operand bias >= 0, stride 0 on all but the last axis) and/or a residual (operand with the domain's shape)
  // and/or applies one activation, then stores: lets an anchor use its register epilogue. Found by load_program.
  struct Simple {
    bool valid = false;
    int bias = -1, residual = -1;
    enum Activation : uint8_t { none, relu, gelu, gelu_tanh, silu } activation = none;  // applied after the bias, before the residual
  } simple;
};
const ProgramInfo& info(const Program&);
inline constexpr int64_t max_block = 512;

// Everything an evaluation needs that is the same for the whole step.
struct Frame {
  std::span<const backend::TensorRef> operands;  // the body's
  std::span<const int64_t> sizes;                // the body's
  std::span<const int64_t> domain;               // extents
};
// Checks dims and dtypes of the operands against the domain (Error format): afterwards run_block cannot leave them.
void resolve_program(const Program&, const Frame&);

// Evaluates a body WITHOUT reductions on `n` <= max_block consecutive elements along the last domain axis, starting at coordinates `at`
// (domain_rank of them). `accumulator`: n values of the accumulator type, or null. `registers`: registers_bytes of 64-byte aligned scratch.
void run_block(const Program&, const Frame&, const int64_t* at, int64_t n, const void* accumulator, std::byte* registers);
// The same, but returns the value of the first store in f32 into `out` instead of storing it (attention masks): the body's single store
// operand does not exist in memory.
void evaluate_block(const Program&, const Frame&, const int64_t* at, int64_t n, const void* accumulator, std::byte* registers, float* out);

}  // namespace ingot::kernels
