// A GEMM as the offers of ingot's own kernels see it. It takes any body of single elements and reads A through maps.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/cuda/kernels/gemm/gemm.h"
#include "backend/cuda/kernels/gemm/gemv/prologue_text.h"
#include "backend/cuda/kernels/gemm/run/implementation.h"
#include "backend/cuda/kernels/gemm/run/tuning.h"
#include "backend/offer.h"
#include "backend/settings.h"

namespace ingot::backend::cuda {

// Half precision, and float32 by TF32, from sm_80 on. Refers to the body.
struct GemmSite {
  Gemm gemm;
  const FusedBody& body;
  std::vector<StridedLayout> operands;         // of the body
  bool hopper;                                 // the target is sm_90a
  uint16_t tiles = all_tiles;                  // which of Hopper's tiles, one bit each; fewer than all are for measurements
  kernels::GemmMap map = {};                   // of A
  ir::Dims extents = {}, numbers = {};         // of the map's indices; those, then the offsets: the step's sizes
  bool b_along_k = false;                      // B is contiguous along K; else along N
  bool one_row = false;                        // one row of halves, and B along K: only reading B counts
  bool skinny = false;                         // the same for two to eight rows
  bool may_be_skinny = false;                  // skinny, or of an open number of rows that usually is as small
  bool gates_rows = false;                     // the kernels for many rows can have a gated epilogue
  std::optional<EmittedPrologue> prologue = std::nullopt;

  int64_t columns() const { return body.row.back().value(); }  // of the result
  // The rows of A are positions in an image (2) or a volume (3); 0: A is a matrix.
  int pixels() const { return map.m_rank == 1 && map.k_rank == 1 && map.rank == 2 ? 0 : map.m_rank > 3 || map.k_rank > 3 ? 3 : 2; }
  // A in memory, and an epilogue of as many rows as there are.
  bool has_any_rows() const { return !prologue && (!gemm.gated || gates_rows) && !skinny && !(one_row && gemm.b.size() > 1); }
  // The map's sizes, -1 for one that is not known. nullopt if an offset is not known.
  std::optional<std::vector<int64_t>> map_sizes() const;
};
// What costs depend on; also of sketches. Open sizes are the usual ones, but two rows at least, as gemm_gemv computes one alone.
kernels::GemmSizes gemm_sizes(const Site&, const Gemm&, const Target&, const Settings&);

struct GemmSiteAnswer {
  std::shared_ptr<const GemmSite> site;  // null: refused
  Obstacle obstacle;
  std::string reason;
};
// `usual_rows`: of an open number; nullopt: not known.
GemmSiteAnswer gemm_site(const Gemm&, const FusedBody&, const std::vector<StridedLayout>&, bool hopper, uint16_t tiles = all_tiles,
                         std::optional<int64_t> usual_rows = std::nullopt);
// The refusal of a sketch. The sizes that a prologue, parts of B and a gated epilogue need must be known.
std::optional<Refusal> sketch_refusal(const Gemm&, bool tf32, bool hopper);
// That of one whose B will be packed.
std::optional<Refusal> packed_refusal(const Gemm&);
// True if the settings allow the kernels to multiply by this type.
bool takes_gemms_of(ir::DType, const Gemm&, const Settings&);
// The machine's peak by the instructions that the settings allow. TF32 has half of the rate of halves from sm_80 on.
double peak_for(const Gemm&, const Settings&);
inline constexpr std::string_view gemm_types = "for float16 and bfloat16, and for float32 where TF32 is allowed";

bool in_eights(const ir::Dim&);

}  // namespace ingot::backend::cuda
