// Structs as bytes: one list of fields serves writing and reading. Little-endian, without padding; what is read is not trusted.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"

namespace ingot {

struct FieldWriter {
  std::vector<std::byte> out;
  template <class T>
  void field(const T& v) {
    size_t at = out.size();
    out.resize(at + sizeof v);
    std::memcpy(out.data() + at, &v, sizeof v);
  }
  void field(bool v) { field(static_cast<uint8_t>(v)); }
  template <class... T>
  void all(const T&... v) {
    (field(v), ...);
  }
  void text(const std::string& v) {
    field(static_cast<uint32_t>(v.size()));
    for (char c : v) field(c);
  }
  template <class T, class F>
  void list(const std::vector<T>& v, F each) {
    field(static_cast<uint32_t>(v.size()));
    for (const T& item : v) each(item);
  }
};

// Errors (format) say that `what` is damaged.
struct FieldReader {
  std::span<const std::byte> in;
  const char* what;
  template <class T>
  void field(T& v) {
    if (in.size() < sizeof v) fail(Code::format, "{} end too early", what);
    std::memcpy(&v, in.data(), sizeof v);
    in = in.subspan(sizeof v);
  }
  void field(bool& v) {
    uint8_t b;
    field(b);
    v = b != 0;
  }
  template <class... T>
  void all(T&... v) {
    (field(v), ...);
  }
  void text(std::string& v) {
    uint32_t n;
    field(n);
    if (n > 200 || n > in.size()) fail(Code::format, "{} have a text of {} letters", what, n);
    v.assign(reinterpret_cast<const char*>(in.data()), n);
    in = in.subspan(n);
  }
  template <class T, class F>
  void list(std::vector<T>& v, F each) {
    uint32_t n;
    field(n);
    if (n > 100000 || n > in.size()) fail(Code::format, "{} have a list of {} items", what, n);
    v.resize(n);
    for (T& item : v) each(item);
  }
  void end() const {
    if (!in.empty()) fail(Code::format, "{} have bytes after their end", what);
  }
};

// A struct as bytes that begin with a number of its kind; `fields(stream, struct)` lists its fields.
template <class T, class F>
std::vector<std::byte> to_bytes(uint32_t start, const T& v, F fields) {
  FieldWriter w;
  w.field(start);
  fields(w, v);
  return std::move(w.out);
}
template <class T, class F>
T from_bytes(std::span<const std::byte> bytes, uint32_t start, const char* what, F fields) {
  FieldReader r{bytes, what};
  uint32_t found;
  r.field(found);
  if (found != start) fail(Code::format, "{} have a wrong start", what);
  T v;
  fields(r, v);
  r.end();
  return v;
}

}  // namespace ingot
