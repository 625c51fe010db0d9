import pg from 'pg'
import { openBenchServer } from './harness/server.ts'
import { openCommandHouse } from './harness/command-house.ts'
let on = false
const t0 = performance.now()
const log: string[] = []
const q = pg.Client.prototype.query as any
pg.Client.prototype.query = function (this: any, ...args: any[]) {
  const a = args[0]
  const text = typeof a === 'string' ? a : a?.name ?? a?.text
  if (on) log.push(`${(performance.now() - t0).toFixed(1)} [${this.processID}] ${String(text).replace(/\s+/g, ' ').slice(0, 110)}`)
  return q.apply(this, args)
} as any
const server = await openBenchServer()
const db = server.open({ poolMax: 10 })
const house = await openCommandHouse(db)
for (let k = 0; k < 60; k++) await house.run('durable')
await new Promise(r=>setTimeout(r,300))
on = true
await house.run(process.argv[2] ?? 'durable')
await new Promise(r=>setTimeout(r,60))
on = false
console.log(log.join('\n'))
await house.close(); await db.close(); await server.stop()
