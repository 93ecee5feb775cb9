-- Gives back what a call took that nothing came of.
give_back(a.id)
return answer('ok')
