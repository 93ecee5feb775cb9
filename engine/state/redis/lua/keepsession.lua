-- keep_session makes a session hold at least what c says: session, owner, version,
-- labels, a plan, and that it has ended. With c.grow its version moves when it has more
-- labels then, or a later plan, as for whoever decided on it meanwhile.
local function keep_session(c)
  local s = P .. 's:' .. c.session
  local was = call('HMGET', s, 'owner', 'v', 'until', 'pv', 'pe')
  local version, keepms = math.max(tonumber(was[2] or '0'), tonumber(c.version)), 30 * DAY
  if c['until'] ~= '' then
    call('HSET', s, 'until', most(was[3] or '', c['until']))
    keepms = from(c['until'], HOUR)
  end
  local more = 0
  for label, ends in pairs(c.labels) do
    local before = call('HGET', s, 'l:' .. label) or ''
    if before <= now and ends > now then
      more = 1
    end
    call('HSET', s, 'l:' .. label, most(before, ends))
    keepms = math.max(keepms, from(ends, HOUR))
  end
  if c.ended then
    call('HSET', s, 'ended', '1')
  end
  local pe = was[5] or ''
  if c.ends > now and (c.ends > pe or c.ends == pe and tonumber(c.made) > tonumber(was[4])) then
    call('HSET', s, 'plan', c.text, 'pv', c.made, 'pe', c.ends)
    keepms, more = math.max(keepms, from(c.ends, HOUR)), 1
  end
  if c.grow and version == tonumber(was[2] or '0') then
    version = version + more
  end
  call('HSET', s, 'owner', most(was[1] or '', c.owner), 'v', string.format('%d', version))
  outlive(s, keepms)
end
