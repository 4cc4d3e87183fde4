// The steps of products of experts on the CPU.
//
// "ragged". Operands: A [M, K]; B [experts, K, N] strided, or, if packed, a 1-d view written by "ragged_pack"; the ends of the experts' rows [experts], i32 or i64; then the body's loads
// and stores over the domain [M, N]. Row m is multiplied by the first expert whose end is after it; the sums of rows after the last end are 0. Sizes: M, N, K, then the body's. Constants:
// MatmulArgs, without batch axes or a map.
//
// "ragged_pack". Operands: B [experts, K, N] strided (read), packed (written): the panels of each expert, as "matmul_pack" writes those of a matrix, one expert after the other. K is a
// multiple of panel_depth. Sizes: those of B, without axes of 1 in front. No constants.
#pragma once
#include "kernels/matmul/run/matmul_args.h"
