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
    say({ got: 'ready' });
  } else if (type === 'slash_commands') {
    await ack();
    say({ got: 'command', text: body.text });
    await socket.disconnect();
    process.exit(0);
  }
});

const auth = await web.auth.test();
say({ got: 'auth', team: auth.team_id, scopes: auth.response_metadata.scopes.includes('files:read') });
await socket.start();
say({ got: 'started' });
