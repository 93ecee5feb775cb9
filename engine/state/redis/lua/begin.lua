-- Says what is known of the node's log.
return answer('ok', call('GET', P .. 'mark:' .. a.node) or '-1', call('SMEMBERS', P .. 'open:' .. a.node))
