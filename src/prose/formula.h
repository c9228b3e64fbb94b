// A formula in a small part of TeX, as a tree.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace headproof {

/// How a node stands among its neighbours; these are TeX's classes of atoms.
enum class Role {
  ordinary,
  function,  // log, softmax: set apart from its argument
  large,     // sum, max: a function whose scripts are limits
  binary,    // +
  sign,      // a binary operator without a left operand
  relation,
  open,
  close,
  punctuation,
  space,
};

enum class Form { letter, number, word, mark, text, space, group, fenced, fraction, root, accent };

struct Node {
  Form form = Form::mark;
  Role role = Role::ordinary;
  std::string text = {};            ///< what is shown; for a space, its width
  std::vector<Node> children = {};  ///< a fraction has two groups; fences are first and last
  std::vector<Node> sub = {}, sup = {};

  bool has_scripts() const { return !sub.empty() || !sup.empty(); }
};
using Row = std::vector<Node>;

/// The formula as a row of nodes; an empty row when it is malformed or uses what is not known.
Row parse_formula(std::string_view tex);

/// How many bytes the UTF-8 character at the start of `text` has; 1 for a byte that starts none.
std::size_t character_bytes(std::string_view text);

/// Takes the part of `words` before its first space off its front.
std::string_view take_word(std::string_view& words);

}  // namespace headproof
