// What someone may have meant who wrote a name that nothing has.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ullage {

// Letters to insert, delete or replace (Levenshtein). Cost: the product of the lengths.
size_t edit_distance(std::string_view a, std::string_view b);

// One thing and every spelling it answers to, in the form that look-ups compare.
struct NamedThing {
  std::string name;  // as it is told
  std::vector<std::string> spellings;
};

// The `count` nearest names, nearest first, "a, b, c". A spelling that holds the wanted word, or is held by it, is
// nearest of all.
std::string near_names(std::string_view wanted, std::span<const NamedThing> things, size_t count = 4);

}  // namespace ullage
