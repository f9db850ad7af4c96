// Prints what the core computes: numbers, hashes and JSON. Built natively and for WebAssembly; any difference between
// the two outputs is a platform leaking into the core.
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>

#include "ullage/base/hash.h"
#include "ullage/base/json.h"
#include "ullage/base/random.h"
#include "ullage/base/units.h"

namespace {

void print(const std::string& line) { std::printf("%s\n", line.c_str()); }

void print_base() {
  ullage::RandomStream stream(7, 3);
  ullage::Json numbers = ullage::Json::array();
  for (int i = 0; i < 1000; ++i) {
    numbers.push_back(stream.uniform() * 1e3);
    numbers.push_back(stream.bits());
    numbers.push_back(1.0 / static_cast<double>(1 + stream.below(1'000'000)));
  }
  const std::string text = ullage::dump_json(numbers);
  print(text.substr(0, 200));
  print(ullage::to_hex(ullage::hash128(std::as_bytes(std::span(text)))));
  print(ullage::format_bytes(ullage::Bytes(int64_t{5} << 40)) + " " + ullage::format_thousands(INT64_MAX));
  for (const char* hostile : {"[1,", "{\"a\":1e999}", "\"\\ud800\"", "[[[[[[", "nul"}) {
    const auto parsed = ullage::parse_json(hostile, "check");
    print(parsed ? ullage::dump_json(*parsed) : parsed.error().to_string());
  }
}

}  // namespace

int main() {
  print_base();
  return 0;
}
