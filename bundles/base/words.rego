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
# title: Which default of this library does not apply, "ask", "limit" or "raw"
waive contains "" if false

# METADATA
# title: The most that the call may do, whoever permits it
# description: >-
#   Capabilities as in a grant. A family that is not there is no opinion, an
#   empty list is none. All caps count.
cap contains {} if false

# METADATA
# title: What the session is marked with once the call is admitted
label contains "" if false

# METADATA
# title: What the session is marked with before the result is released
result_label contains "" if false

# METADATA
# title: What of the result is blacked out
# description: 'A place, as in "/customer/email", or the name of what to look for.'
redact contains "" if false

# METADATA
# title: The only fields of the result that are released, as a list of names
# description: Of several lists, only what is in all of them is released.
fields contains [] if false

# METADATA
# title: How many rows of the result are released at most
# description: Of several numbers, the smallest counts.
rows contains 0 if false

# METADATA
# title: What the result is framed as, for the model that reads it
frame contains "" if false

# METADATA
# title: Tools that the principal is shown, by name or pattern
# description: It permits nothing. It is for listings, and for who-can and what-can.
visible contains "" if false
