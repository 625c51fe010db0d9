/** The insert into an event log: one row, many rows, or the rows that a move declared. */
import type { EventDraft, EventLog } from '../events.ts'
import { type Bound, bind, collectParams } from './params.ts'

type Appended = { readonly appended: true }

function onceClause(log: EventLog, once: boolean): string {
  return once ? ` on conflict (${log.id}) do nothing` : ''
}

export function compileAppendOne(log: EventLog, once: boolean): Bound<EventDraft, Appended> {
  const params = collectParams<EventDraft>()
  const links = Object.entries(log.links)
  const places = [
    ...log.columns.map((column) => params.add(column.type, column.valueOf)),
    ...links.map(([name, type]) => params.add(type, (event) => event.links?.[name])),
  ]
  const names = [...log.columns.map((column) => column.name), ...links.map(([name]) => name)]
  const text = `insert into ${log.table} (${names.join(', ')})
values (${places.join(', ')})${onceClause(log, once)}
returning true as appended`
  return bind(`append_${log.table}`, text, params)
}

/** In the order of the list, so that `seq` within one statement follows it. */
export function compileAppendMany(log: EventLog, once: boolean): Bound<readonly EventDraft[], Appended> {
  const params = collectParams<readonly EventDraft[]>()
  const links = Object.entries(log.links)
  const lists = [
    ...log.columns.map((column) => params.addList(column.type, (events) => events.map(column.valueOf))),
    ...links.map(([name, type]) => params.addList(type, (events) => events.map((event) => event.links?.[name]))),
  ]
  const names = [...log.columns.map((column) => column.name), ...links.map(([name]) => name)].join(', ')
  const text = `insert into ${log.table} (${names})
select ${names} from unnest(${lists.join(', ')}) with ordinality as e(${names}, n)
order by n${onceClause(log, once)}
returning true as appended`
  return bind(`append_all_${log.table}`, text, params)
}
