// An independent client: Slack's own packages against the fake. It prints one
// line of JSON for each thing that it got.
import { createRequire } from 'node:module';
const require = createRequire(process.env.MODULES + '/');
const { SocketModeClient } = require('@slack/socket-mode');
const { WebClient, LogLevel } = require('@slack/web-api');

const say = (o) => console.log(JSON.stringify(o));
const options = { slackApiUrl: process.env.API, logLevel: LogLevel.ERROR, retryConfig: { retries: 2, minTimeout: 10, maxTimeout: 10 } };
const web = new WebClient(process.env.BOT_TOKEN, options);
const socket = new SocketModeClient({ appToken: process.env.APP_TOKEN, logLevel: LogLevel.ERROR, clientOptions: { slackApiUrl: process.env.API } });

let seen = 0;
socket.on('slack_event', async ({ ack, type, body, retry_num }) => {
  if (type === 'events_api' && body.event.type === 'message' && body.event.user === 'U1') {
    seen++;
    if (seen === 1) return; // the fake has to send it again
    await ack();
    say({ got: 'message', text: body.event.text, files: body.event.files?.length ?? 0, retry: retry_num, thread: body.event.thread_ts });
    const answer = await web.chat.postMessage({
      channel: body.event.channel, thread_ts: body.event.ts, text: 'hello', blocks: [{ type: 'markdown', text: '**hello**' }],
      metadata: { event_type: 'x', event_payload: { key: 'k' } },
    });
    const replies = await web.conversations.replies({ channel: body.event.channel, ts: body.event.ts, limit: 1, include_all_metadata: true });
    const next = await web.conversations.replies({ channel: body.event.channel, ts: body.event.ts, limit: 1, cursor: replies.response_metadata.next_cursor, include_all_metadata: true });
    const history = await web.conversations.history({ channel: body.event.channel, latest: body.event.ts, oldest: body.event.ts, inclusive: true, limit: 1 });
    say({ got: 'replies', first: replies.messages[0].ts === body.event.ts, second: next.messages[0].ts === answer.ts, key: next.messages[0].metadata.event_payload.key, history: history.messages.length });
    const file = await web.files.info({ file: body.event.files[0].id });
    say({ got: 'file', size: file.file.size });
    try { await web.conversations.info({ channel: 'CNONE' }); } catch (e) { say({ got: 'error', code: e.data.error }); }
    await rewrite(body.event.channel, body.event.ts, answer.ts);
    say({ got: 'ready' });
  } else if (type === 'slash_commands') {
    await ack();
    say({ got: 'command', text: body.text });
    await socket.disconnect();
    process.exit(0);
  }
});

const refused = async (call) => { try { await call(); return 'taken'; } catch (e) { return e.data.error; } };

async function rewrite(channel, thread_ts, ts) {
  await web.chat.update({
    channel, ts, text: 'bye', blocks: [{ type: 'markdown', text: '**bye**' }], metadata: { event_type: 'x', event_payload: { key: 'k2' } },
  });
  const thread = async () => (await web.conversations.replies({ channel, ts: thread_ts, include_all_metadata: true })).messages;
  const updated = (await thread()).find((m) => m.ts === ts);
  say({ got: 'update', text: updated.text, key: updated.metadata.event_payload.key });

  const to = { channel, thread_ts, recipient_team_id: auth.team_id, recipient_user_id: 'U1' };
  const streamer = web.chatStream({ ...to, buffer_size: 1 });
  await streamer.append({ markdown_text: '**one** ' });
  await streamer.append({ markdown_text: 'two' });
  const done = await streamer.stop({ markdown_text: ' three' });
  say({ got: 'stream', text: (await thread()).find((m) => m.ts === done.ts).text });

  const open = await web.chat.startStream({ ...to, markdown_text: 'x' });
  say({
    got: 'conflicts',
    update: await refused(() => web.chat.update({ channel, ts: open.ts, text: 'y' })),
    delete: await refused(() => web.chat.delete({ channel, ts: open.ts })),
    stop: await refused(() => web.chat.stopStream({ channel, ts: open.ts })),
    append: await refused(() => web.chat.appendStream({ channel, ts: open.ts, markdown_text: 'z' })),
    recipient: await refused(() => web.chat.startStream({ channel, thread_ts, markdown_text: 'x' })),
  });
  await web.chat.delete({ channel, ts: open.ts });
  await web.filesUploadV2({ channel_id: channel, thread_ts, filename: 'a.txt', title: 'A', file: Buffer.from('abc') });
  const all = await thread();
  const shared = all[all.length - 1].files ?? [];
  const info = shared.length ? await web.files.info({ file: shared[0].id }) : { file: {} };
  say({ got: 'upload', deleted: !all.some((m) => m.ts === open.ts), files: shared.length, title: info.file.title, size: info.file.size });
}

const auth = await web.auth.test();
say({ got: 'auth', team: auth.team_id, scopes: auth.response_metadata.scopes.includes('files:read') });
await socket.start();
say({ got: 'started' });
