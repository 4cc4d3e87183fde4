// simdjson with errors that say where: every access names the field it wanted.
#pragma once
#include <simdjson.h>

#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace ingot::capture {

class Json {
 public:
  Json(simdjson::dom::element e, std::string_view name) : e_(e), name_(name) {}

  Json at(std::string_view key) const {
    simdjson::dom::element out;
    if (e_.at_key(key).get(out) != simdjson::SUCCESS) bad("has no field", key);
    return {out, key};
  }
  // Missing and null are the same.
  std::optional<Json> find(std::string_view key) const {
    simdjson::dom::element out;
    if (!e_.is_object() || e_.at_key(key).get(out) != simdjson::SUCCESS || out.is_null()) return std::nullopt;
    return Json(out, key);
  }
  simdjson::dom::array array() const { return get<simdjson::dom::array>("a list"); }
  simdjson::dom::object object() const { return get<simdjson::dom::object>("an object"); }
  std::string_view string() const { return get<std::string_view>("a string"); }
  int64_t integer() const {
    uint64_t large = 0;
    if (e_.is_uint64() && e_.get(large) == simdjson::SUCCESS && large > INT64_MAX) fail(Code::unsupported, "the number {} is larger than an int64", large);
    return get<int64_t>("an integer");
  }
  bool boolean() const { return get<bool>("a bool"); }
  // torch writes infinities and NaN as strings.
  double number() const {
    if (e_.is_string()) {
      std::string_view s = string();
      if (s == "Infinity") return std::numeric_limits<double>::infinity();
      if (s == "-Infinity") return -std::numeric_limits<double>::infinity();
      if (s == "NaN") return std::numeric_limits<double>::quiet_NaN();
      if (s == "-NaN") return -std::numeric_limits<double>::quiet_NaN();  // torch writes no sign; python/ingot/capture/writer.py does
    }
    return get<double>("a number");
  }
  // The one field of a union such as {"as_int": 3}.
  Json only(std::string_view& kind) const {
    for (auto field : object()) {
      kind = field.key;
      return {field.value, field.key};
    }
    bad("is empty", "");
  }
  bool is_array() const { return e_.is_array(); }
  bool is_string() const { return e_.is_string(); }
  bool is_null() const { return e_.is_null(); }
  bool is_object() const { return e_.is_object(); }
  Json child(simdjson::dom::element e) const { return {e, name_}; }
  std::string text() const { return simdjson::minify(e_); }
  std::string_view name() const { return name_; }

 private:
  template <class T>
  T get(const char* kind) const {
    T out;
    if (e_.get(out) != simdjson::SUCCESS) bad("is not", kind);
    return out;
  }
  [[noreturn]] void bad(std::string_view what, std::string_view detail) const { fail(Code::format, "the model's JSON is damaged: \"{}\" {} {}", name_, what, detail); }

  simdjson::dom::element e_;
  std::string_view name_;
};

}  // namespace ingot::capture
