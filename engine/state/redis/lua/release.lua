-- Gives back what a call took that nothing came of.
local no = lost()
if no then
  return no
end
give_back(a.id)
return answer('ok')
