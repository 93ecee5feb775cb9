# METADATA
# title: The words that rules say
# description: >-
#   Each word is a set here, so a rule or a data file that makes it anything
#   else does not compile.
package callgate.rules

# METADATA
# title: What a rule permits, with the capabilities that it grants
allow contains {} if false

# METADATA
# title: Who must approve the call before it runs
ask contains {} if false

# METADATA
# title: Why the call is refused
deny contains {} if false

# METADATA
# title: What the call takes from a budget
limit contains {} if false

# METADATA
# title: Which default of this library does not apply, "ask" or "limit"
waive contains "" if false

# METADATA
# title: What the session is marked with once the call is admitted
label contains "" if false
