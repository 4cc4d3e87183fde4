// What an operand is to its kernel. A step lists its operands by role, in the order of the kernel's definition (kernels/definition.h).
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace ingot::kernels {

enum class Role : uint8_t {
#define X(role, meaning) role,
#include "kernels/run/role.def"
#undef X
};

constexpr std::string_view name_of(Role role) {
  constexpr std::string_view names[] = {
#define X(role, meaning) #role,
#include "kernels/run/role.def"
#undef X
  };
  return names[static_cast<size_t>(role)];
}

// True if a result may take the memory of an operand of this role.
constexpr bool may_be_overwritten(Role role) { return role == Role::body || role == Role::overwritten; }

// Operands of one role are neighbours.
struct OperandRange {
  size_t first = 0, count = 0;
  constexpr size_t end() const { return first + count; }
};
constexpr OperandRange range_of(std::span<const Role> roles, Role role) {
  OperandRange out;
  while (out.first < roles.size() && roles[out.first] != role) ++out.first;
  while (out.end() < roles.size() && roles[out.end()] == role) ++out.count;
  return out;
}

// The operands of a step with one A and one B, in front of those of its body.
inline constexpr std::array product_roles{Role::a, Role::b};
// Operand `k` of the body, and all of them.
constexpr size_t body_operand(size_t k) { return product_roles.size() + k; }
template <class T>
constexpr std::span<T> body_operands(std::span<T> operands) {
  return operands.subspan(product_roles.size());
}
// The operands of an attention step, in front of what its mask loads; after that come the optional ones that it has, and the result.
inline constexpr std::array attention_roles{Role::query, Role::key, Role::value};
template <class T>
constexpr std::span<T> mask_operands(std::span<T> operands, size_t optional = 0) {
  return operands.subspan(attention_roles.size(), operands.size() - attention_roles.size() - optional - 1);
}

}  // namespace ingot::kernels
