// The answer of a backend: the offers for a site, and the reasons for having no others.
//
// An *offer* is one implementation of a site. Compile asks twice: first for sketches, whose operands have sizes but no strides, to learn which values need no
// memory; then with all layouts.
#pragma once
#include <any>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/site.h"
#include "base/machine.h"

namespace ingot::backend {

// Device code of a step as text. Units of equal name have equal text and are compiled once.
struct CodeUnit {
  // The last three are registered by the user. Source is compiled unchanged; code that the driver translates, or machine code, is used as it is: `kernels` then
  // has one name, NAME:ENTRY, where ENTRY is the name in the text.
  enum class From : uint8_t { ingot, user_source, user_portable, user_machine };
  using Library = std::string_view (*)();
  std::string name, text;
  std::vector<std::string> kernels;
  std::vector<Library> libraries = {};  // texts to put before it, in order
  From from = From::ingot;
  std::string label = {};            // for display: the operator that has this kernel
  std::string shared = {};           // a text to put between the libraries and it, once for all units that have it
};

// A step, and what it needs besides operands.
struct EmittedStep {
  std::string kernel;                // RunKernel::name
  std::vector<std::byte> constants;
  std::vector<ir::Dim> sizes;
  std::vector<CodeUnit> code = {};
  // What the backend needs to make the step a part of others (Concurrent), since the site is gone by then; empty: it cannot be one.
  std::any as_part = {};
};

// How an operand should lie for an offer to be worth its cost. Compile stores or copies it so where that pays.
struct Wish {
  enum class Axis : uint8_t { m, n, k, none };  // of the GEMM; along K, the image of a convolution has its channels
  enum class Kind : uint8_t {
    contiguous,   // neighbours along the axis are neighbours in memory
    even,         // all along the axis have one stride
    multiple,     // the axis has a multiple of this many elements
    interleaved,  // of two outputs: the elements of one lie between those of the other, as the parts of complex numbers
    // Of an output. It may take the memory of an operand that its role says may be overwritten, and then
    own_memory,   // required: it has none of theirs, since not each element is read before the same one is written,
    reused_memory,  // or preferred: it has, since the caches hold that.
  };
  Role operand;
  Axis axis = Axis::none;
  Kind kind = Kind::contiguous;
  int64_t of = 1;  // Kind::multiple
  bool required = false;  // else preferred. An offer whose operands do not lie as it requires has no `emit`, and the cost that it has after the copy, with that of the copy
  bool operator==(const Wish&) const = default;
};

struct Offer {
  std::string_view implementation;   // shown in reports
  double cost = 0;                   // nanoseconds, compared with the site's other offers
  bool takes_body = true;            // else the result is stored, and a separate step computes the body
  std::vector<Wish> wishes = {};
  // B must be packed like this by a separate step; only for a constant B [K, N] of static sizes. If the site's B is packed already: the packing that it reads.
  std::optional<Packing> packing = std::nullopt;
  // The kernel's choices at run time that can be timed for one set of sizes, by name ("algorithm"). RunKernel::tunables lists the choices.
  std::vector<std::string_view> tunables = {};
  // Empty: the site is a sketch, is a GEMM that is faster as a fused body, or needs copies first (Wish::required).
  std::function<EmittedStep()> emit = {};
};
bool wishes(const Offer&, Role, Wish::Axis, Wish::Kind = Wish::Kind::contiguous);
bool has(std::span<const Wish>, const Wish&);
bool requires_copy(const Offer&);  // it has a required wish
// The usual wishes.
inline constexpr Wish channels_innermost{Role::a, Wish::Axis::k}, contiguous_rows{Role::output, Wish::Axis::n}, even_rows{Role::output, Wish::Axis::m, Wish::Kind::even};
inline constexpr Wish copied_channels_innermost{Role::a, Wish::Axis::k, Wish::Kind::contiguous, 1, true};
inline constexpr Wish merged_rows{Role::a, Wish::Axis::m, Wish::Kind::even};  // the rows of all batches are those of one matrix
inline constexpr Wish interleaved_parts{Role::output, Wish::Axis::none, Wish::Kind::interleaved};
inline constexpr Wish own_memory{Role::output, Wish::Axis::none, Wish::Kind::own_memory}, reused_memory{Role::output, Wish::Axis::none, Wish::Kind::reused_memory};

// What kept an implementation from making an offer.
struct Obstacle {
  enum class Kind : uint8_t {
    types,    // cannot be removed: use another implementation or a fused body
    operand,  // storing it row-major may help
    body,     // splitting it off may help
    cost,     // cannot be removed: another offer is cheaper
  };
  Kind kind;
  Role operand = Role::output;
  bool operator==(const Obstacle&) const = default;
  static constexpr Obstacle of(Role role);
  static const Obstacle types, a, b, body, cost;
};
constexpr Obstacle Obstacle::of(Role role) { return {Kind::operand, role}; }
inline constexpr Obstacle Obstacle::types{Kind::types}, Obstacle::a = of(Role::a), Obstacle::b = of(Role::b), Obstacle::body{Kind::body}, Obstacle::cost{Kind::cost};

struct Refusal {
  std::string_view implementation;
  Obstacle obstacle;
  std::string reason;
};

struct Offers {
  std::vector<Offer> offers;         // if costs are equal, the first is preferred
  std::vector<Refusal> refusals;
  double pass = 0;                   // the cost of a separate step for a body
};

// True if the cost model estimates the same for both; then timing decides, if there is time for it.
inline bool is_near(double cost, double least) { return cost <= 2 * least; }

// Elements of the site's result at the usual values of open sizes; 0: the site has no body.
double results_of(const Site&);
// Nanoseconds of a separate step for the site's body: Offers::pass.
double pass_of(const Site&, const Machine&);

// Wishes for `merged_rows` if tiles of this many rows, none of which has rows of two batches, multiply for nothing for longer than a copy of A takes. `peak`: products of a nanosecond.
void wish_for_merged_rows(std::vector<Wish>&, const Site&, const Gemm&, double tile_rows, const Machine&, double peak);

// Adds an offer if the site is one of these kernels without a body. `code`: gives the step's device code, on backends that have any.
void offer_plain(const Site&, std::initializer_list<std::string_view> kernels, std::string_view implementation, Offers&,
                 std::vector<CodeUnit> (*code)(const Plain&, std::span<const Operand>) = nullptr);

// For kernels that transform along one axis: true, and refused, if the site is a Fourier transform along several. Compile writes it as transforms along one.
bool refuse_several_axes(const Site&, std::string_view implementation, Offers&);

// The constants of a step with a registered kernel, except for the address of its code. Appends its sizes to `sizes`.
kernels::ExternalArgs external_args(const External&, std::vector<ir::Dim>& sizes);
// If the site is a registered kernel: adds an offer for its host function, or a refusal if it has none.
void offer_host_external(const Site&, Offers&);

// A map in the form that steps use: returns its strides, [axes][indices], and appends the extents of its indices and the offsets along its axes to
// `sizes`. nullopt if a stride is negative or too large.
std::optional<std::vector<int64_t>> map_steps(const ir::AffineMap&, std::vector<ir::Dim>& sizes);

}  // namespace ingot::backend
