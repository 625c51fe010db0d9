/** A process that calls a connector which never answers, and prints when the call has started. Argument: a JSON object. */
import { openDb } from '../../src/store/db.ts'
import { openGateOn } from './connectors.ts'
import { silentConnector } from './silent-connector.ts'
import type { StoreRows } from './store-rows.ts'

export type ConnectorChildTask = { readonly url: string; readonly world: StoreRows }

const { url, world } = JSON.parse(process.argv[2] ?? '') as ConnectorChildTask
const db = openDb({ url, role: 'concord_engine' })
const say = () => void process.stdout.write('called\n')
const gate = await openGateOn(db, [silentConnector(say)], {}, world)
await gate.call('silent', 'wait', {})
