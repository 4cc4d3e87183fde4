// Declarations for other architectures: code that uses them is discarded.
#else
#define INGOT_BLOCKS(n) 1
template <int N> __device__ void hold(u32* fragments);
template <int N> __device__ void begin_multiplying(f32* sums);
template <int N> __device__ void wait_multiplied(f32* sums);
__device__ void multiplying();
__device__ void show_to_matrix_units();
__device__ u64 tile_of(u32 address, u32 group);
__device__ void put_four_matrices(u32 at, const u32* r);
template <int Columns, bool AlongK, class H> __device__ void multiply_tiles(f32* c, u64 a, u64 b, H, bool add);
template <int Columns, bool AlongK, class H> __device__ void multiply_rows(f32* c, const u32* a, u64 b, H);
#endif
