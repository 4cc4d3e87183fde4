#include <algorithm>
#include <bit>

#include "base/error.h"
#include "ir/graph.h"

namespace ingot::ir {

namespace {

// Two constants are one only if every operator treats them alike: a double is compared by its bits.
template <class Value>
bool same(const Value& a, const Value& b) {
  const double *x = std::get_if<double>(&a), *y = std::get_if<double>(&b);
  return x != nullptr && y != nullptr ? std::bit_cast<uint64_t>(*x) == std::bit_cast<uint64_t>(*y) : a == b;
}

}  // namespace

bool Scalar::operator==(const Scalar& other) const { return same(value, other.value); }
bool Attribute::operator==(const Attribute& other) const { return same(value, other.value); }

double Scalar::to_double() const {
  if (auto* b = std::get_if<bool>(&value)) return *b;
  if (auto* i = std::get_if<int64_t>(&value)) return static_cast<double>(*i);
  if (auto* d = std::get_if<double>(&value)) return *d;
  fail(Code::unsupported, "a symbolic size is used where a number must be known at compile time");
}

int64_t Scalar::to_int() const {
  if (auto* b = std::get_if<bool>(&value)) return *b;
  if (auto* i = std::get_if<int64_t>(&value)) return *i;
  if (auto* d = std::get_if<double>(&value)) {
    if (*d >= -9.2e18 && *d <= 9.2e18 && static_cast<double>(static_cast<int64_t>(*d)) == *d) return static_cast<int64_t>(*d);
    fail(Code::invalid_input, "the number {} is used where an integer is needed", *d);
  }
  fail(Code::unsupported, "a symbolic size is used where a number must be known at compile time");
}

Attributes::Attributes(std::initializer_list<std::pair<std::string, Attribute>> list) {
  for (const auto& [name, value] : list) set(name, value);
}

void Attributes::set(std::string name, Attribute value) {
  auto at = std::lower_bound(items_.begin(), items_.end(), name, [](const auto& item, const std::string& n) { return item.first < n; });
  if (at != items_.end() && at->first == name) {
    at->second = std::move(value);
  } else {
    items_.emplace(at, std::move(name), std::move(value));
  }
}

const Attribute* Attributes::find(std::string_view name) const {
  auto at = std::lower_bound(items_.begin(), items_.end(), name, [](const auto& item, std::string_view n) { return item.first < n; });
  return at != items_.end() && at->first == name ? &at->second : nullptr;
}

const Attribute& Attributes::at(std::string_view name) const {
  if (const Attribute* found = find(name)) return *found;
  fail(Code::format, "attribute \"{}\" is missing", name);
}

namespace {

template <class T>
const T& get(const Attributes& attributes, std::string_view name, const char* kind) {
  if (const T* v = std::get_if<T>(&attributes.at(name).value)) return *v;
  fail(Code::format, "attribute \"{}\" is not {}", name, kind);
}

}  // namespace

bool Attributes::boolean(std::string_view name) const { return get<bool>(*this, name, "a bool"); }
bool wraps(const Attributes& a) { return a.find("wrap") == nullptr || a.boolean("wrap"); }
const std::string& Attributes::string(std::string_view name) const { return get<std::string>(*this, name, "a string"); }
DType Attributes::dtype(std::string_view name) const { return get<DType>(*this, name, "a dtype"); }
const AffineMap& Attributes::map(std::string_view name) const { return get<AffineMap>(*this, name, "a map"); }

int64_t Attributes::integer(std::string_view name) const {
  Dim d = dim(name);
  if (auto c = d.constant()) return *c;
  fail(Code::format, "attribute \"{}\" is a symbolic size where a number is needed", name);
}

double Attributes::number(std::string_view name) const {
  const Attribute& a = at(name);
  if (auto* d = std::get_if<double>(&a.value)) return *d;
  return static_cast<double>(integer(name));
}

namespace {

std::optional<Dim> as_dim(const Attribute& a) {
  if (auto* i = std::get_if<int64_t>(&a.value)) return Dim(*i);
  if (auto* d = std::get_if<Dim>(&a.value)) return *d;
  return std::nullopt;
}

}  // namespace

Dim Attributes::dim(std::string_view name) const {
  if (auto d = as_dim(at(name))) return *d;
  fail(Code::format, "attribute \"{}\" is not an integer", name);
}

Dims Attributes::dims(std::string_view name) const {
  Dims out;
  for (const Attribute& a : get<List>(*this, name, "a list")) {
    auto d = as_dim(a);
    if (!d) fail(Code::format, "attribute \"{}\" is not a list of sizes", name);
    out.push_back(*d);
  }
  return out;
}

std::vector<int64_t> Attributes::integers(std::string_view name) const {
  std::vector<int64_t> out;
  for (const Dim& d : dims(name)) {
    auto c = d.constant();
    if (!c) fail(Code::format, "attribute \"{}\" is not a list of integers", name);
    out.push_back(*c);
  }
  return out;
}

std::vector<GraphRef> Attributes::graphs(std::string_view name) const {
  std::vector<GraphRef> out;
  for (const Attribute& a : get<List>(*this, name, "a list")) {
    const auto* g = std::get_if<GraphRef>(&a.value);
    if (g == nullptr) fail(Code::format, "attribute \"{}\" is not a list of graphs", name);
    out.push_back(*g);
  }
  return out;
}

Scalar Attributes::scalar(std::string_view name) const {
  const Attribute& a = at(name);
  if (auto* b = std::get_if<bool>(&a.value)) return *b;
  if (auto* d = std::get_if<double>(&a.value)) return *d;
  if (auto d = as_dim(a)) return *d;
  fail(Code::format, "attribute \"{}\" is not a number", name);
}

Attribute to_attribute(const Dims& dims) {
  List list;
  for (const Dim& d : dims) list.push_back(d.constant() ? Attribute(*d.constant()) : Attribute(d));
  return list;
}

Attribute to_attribute(const std::vector<int64_t>& values) {
  List list;
  for (int64_t v : values) list.push_back(v);
  return list;
}

Attribute to_attribute(const Scalar& s) {
  return std::visit([](const auto& v) { return Attribute(v); }, s.value);
}

}  // namespace ingot::ir
