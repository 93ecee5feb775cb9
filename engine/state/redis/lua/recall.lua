-- Puts back what a node knows of sessions.
for _, c in ipairs(a.sessions) do
  keep_session(c)
end
return answer('ok')
