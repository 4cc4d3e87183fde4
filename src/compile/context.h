// The input of the three phases: a function's graph, the plan entries of its leaves, and the backend.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "backend/offer.h"
#include "backend/settings.h"
#include "base/timing.h"
#include "compile/encoded_b.h"
#include "compile/options.h"
#include "compile/split.h"
#include "ir/graph.h"

namespace ingot::compile {

// The plan entry of each leaf of the graph.
struct LeafPlaces {
  std::vector<uint32_t> weight;   // per value: index in Plan::weights, or none_id
  std::vector<uint32_t> derived;  // per value: index in ForTarget::derived, or none_id
};

struct WeightEncoding;

// INGOT_OFFER=NAME: sites for which this implementation makes an offer have no other.
struct ForcedOffer {
  std::string name;
  std::set<std::string> others;  // all implementations that made an offer
};
// Null if it is not set.
std::shared_ptr<ForcedOffer> forced_offer();
// Says so if the implementation made no offer.
void report(const ForcedOffer&);

// What a program is compiled for: a target and the options of the build that concern it.
struct Backend {
  Target target;
  backend::Settings settings;
  std::span<const Timing> known = {};  // timings of earlier builds: the fastest implementation of a step
  const WeightEncoding* weight_encoding = nullptr;  // that option weight_dtype asks for
  int64_t weight_group = 0;                         // option weight_group
  std::shared_ptr<ForcedOffer> forced = nullptr;
  // Those that require a copy of the image only if `image_may_be_copied`.
  backend::Offers offers(const backend::Site& site, bool image_may_be_copied = false) const;
  // For a sketch (a site without layouts): true if the backend has any offer.
  bool has_offer(const backend::Site& site) const { return !offers(site).offers.empty(); }
};

Backend backend_for(const Target&, const Options&);

struct Subject {
  const ir::Graph& graph;
  const Backend& backend;
  LeafPlaces leaves;
  std::span<const DerivedTensor> derived;       // of the target
  std::vector<uint32_t> packed_operand = {};    // per node: index of its packed second operand in `derived`, or none_id
  bool is_prepare = false;                      // output i is derived tensor i
};

// The subject and facts of the graph that hold before anything is decided.
struct Context : Subject {
  explicit Context(Subject);
  std::vector<std::vector<ir::NodeId>> users;
  std::vector<uint32_t> uses;                   // per value, counting outputs
  std::vector<ir::ValueId> written;             // per output: the leaf that it overwrites, or none_id
  std::set<ir::ValueId> concats_of_b;           // concatenated weights that one GEMM could read part by part
  std::set<ir::ValueId> image_copies;           // copies of the function's images that convolutions alone read
  std::map<ir::NodeId, EncodedB> encoded;       // GEMMs that could read the integers of an encoded B
  std::map<ir::ValueId, size_t> depthwise;      // sums that may be depthwise convolutions, and which factor of the product below is the windows
  // True for a cast from a half type that the backend's depthwise convolutions do themselves.
  bool widens(const ir::Node&) const;
};

bool is_one_row(const ir::Dims&);
// True for a view whose map of indices pads nothing.
bool is_plain_view(const ir::Graph&, ir::ValueId);

// The cheapest offer that reads B with this packing; among equal costs the first; null if there is none. An offer without the body costs a pass more, and is
// considered only if the body may be split off.
const backend::Offer* cheapest(const backend::Offers&, bool body_may_go, const std::optional<backend::Packing>& packed = std::nullopt);

// A GEMM as a sketch: its sizes, and B as one matrix.
backend::Gemm sketch_of(const ir::Graph&, const ir::Node& matmul);
// With the other operands of its node.
backend::Site sketch_of(const ir::Graph&, const ir::Node& matmul, backend::Gemm);
// A kernel without a body as a sketch. `constants`: of its step (kernels::PlainStep).
backend::Site sketch_of(const ir::Graph&, const ir::Node&, std::span<const std::byte> constants, size_t first = 0);
// The weights [N_i, K] whose concatenation is B, if the backend can read them part by part: stride 1 along K, one row stride for all.
std::optional<ir::ValueId> concat_of_b(const ir::Graph&, const ir::Node& matmul, const Backend&);

}  // namespace ingot::compile
